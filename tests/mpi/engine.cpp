// The engine and the optimizer on it, on processes, over shared memory and by messages.
#include <doctest/doctest.h>

#include <hvd/hvd.hpp>

#include <string>
#include <vector>

#include "mpi_world.hpp"

namespace {

template <class F>
void on_both_paths(F&& body) {
    for (bool shared : {true, false})
        for (bool background : {true, false}) {
            CAPTURE(shared);
            CAPTURE(background);
            hvd::Communicator world{hvd::Mpi{hvd_test::comm()}, hvd::Auto{}, {.shared_memory = shared}};
            body(world, hvd::EngineOptions{.background = background});
        }
}

struct Net {
    std::vector<std::vector<float>> weights{6, std::vector<float>(5000)}, grads = weights;
    auto& parameters() { return weights; }
    auto& gradients() { return grads; }
};
struct Sgd {
    void step(Net& n) {
        for (std::size_t l = 0; l < n.weights.size(); ++l)
            for (std::size_t i = 0; i < n.weights[l].size(); ++i) n.weights[l][i] -= n.grads[l][i];
    }
};

}  // namespace

TEST_CASE("many tensors in different orders, by one plan, without a control message") {
    on_both_paths([](auto& world, hvd::EngineOptions options) {
        options.fusion_threshold = 4096;
        hvd::Engine engine{world, options};
        std::vector<std::vector<double>> t(60);
        for (int step = 0; step < 6; ++step) {
            std::vector<hvd::Request> requests;
            for (std::size_t k = 0; k < t.size(); ++k) {
                const std::size_t i = (7 * k + 13 * static_cast<std::size_t>(world.rank())) % t.size();
                t[i].assign(1 + 11 * i, world.rank() + static_cast<double>(i));
                requests.push_back(engine.allreduce("t" + std::to_string(i), t[i]));
            }
            engine.synchronize();
            const int p = world.size();
            for (std::size_t i = 0; i < t.size(); ++i)
                REQUIRE(t[i].back() == p * (p - 1) / 2 + p * static_cast<double>(i));
        }
        const hvd::PlanInfo plan = engine.plan();
        CHECK(plan.made == 1);
        CHECK(plan.reused == 5);
        CHECK(plan.control_messages == 0);
    });
}

TEST_CASE("a mismatch is the same error on all ranks; join; and the engine goes on") {
    on_both_paths([](auto& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        const int p = world.size();
        std::vector<float> x(world.rank() == 0 && p > 1 ? 3 : 4, 1.0f);
        std::string text;
        try {
            engine.allreduce("x", x).wait();
        } catch (const hvd::MismatchError& e) {
            text = e.what();
        }
        CHECK(text.empty() == (p == 1));
        for (const std::string& other : hvd::allgather_object(world, text)) CHECK(other == text);
        for (int batch = 0; batch < world.rank(); ++batch) {
            std::vector<float> g(100, 3.0f);
            engine.allreduce("g", g, hvd::average).wait();
            CHECK(g[99] == 3.0f);
        }
        CHECK(engine.join() == p - 1);
        x.assign(4, 1.0f);
        engine.allreduce("x", x).wait();
        CHECK(x[3] == static_cast<float>(p));
    });
}

TEST_CASE("the optimizer: announced gradients, bound gradients, blocking calls between") {
    on_both_paths([](auto& world, hvd::EngineOptions options) {
        Net net;
        hvd::DistributedOptimizer optimizer{world, net, Sgd{}, {.engine = options}};
        const float mean = static_cast<float>(world.size() - 1) / 2;
        for (int step = 1; step <= 5; ++step) {
            for (std::size_t l = 6; l-- > 0;) {
                net.grads[l].assign(5000, static_cast<float>(world.rank()));
                optimizer.gradient_ready(l);
                if (l == 3) CHECK(hvd::average_metric(world, world.rank()) == static_cast<double>(mean));
            }
            optimizer.step();
            REQUIRE(net.weights[5][4999] == -mean * static_cast<float>(step));
        }
        CHECK(optimizer.plan().reused >= 3);
    });
}
