// DistributedOptimizer on threads: the same steps as one worker on the joined batch, in all its forms.
#include "workers.hpp"

#include <cmath>
#include <memory>

namespace {

// A tensor whose elements can live in memory of somebody else's.
struct Rebound {
    std::vector<float> own;
    float* data = nullptr;
    std::size_t size = 0;
    explicit Rebound(std::size_t n) : own(n), data{own.data()}, size{n} {}
    Rebound(const Rebound&) = delete;
};

}  // namespace

template <>
struct hvd::tensor_traits<Rebound> {
    using value_type = float;
    static float* data(Rebound& t) { return t.data; }
    static std::size_t size(const Rebound& t) { return t.size; }
    static void rebind(Rebound& t, float* storage) { t.data = storage; }
};

namespace {

// Parameters of several types; the gradient of parameter i in pass k on rank r is a known number.
struct Net {
    std::vector<float> a = std::vector<float>(5), da = a;
    std::vector<double> b = std::vector<double>(3), db = b;
    std::vector<float> c = std::vector<float>(400), dc = c;
    auto parameters() { return std::tie(a, b, c); }
    auto gradients() { return std::tie(da, db, dc); }
    std::vector<std::string> parameter_names() const { return {"a", "b", "c"}; }

    void backward(double value) {
        da.assign(5, static_cast<float>(value));
        db.assign(3, 2 * value);
        dc.assign(400, static_cast<float>(-value));
    }
};

struct Sgd {
    std::vector<double> steps{0};
    auto state() { return std::tie(steps); }
    void step(Net& n) {
        for (float& x : n.a) x -= n.da[0];
        for (double& x : n.b) x -= n.db[0];
        for (float& x : n.c) x -= n.dc[0];
        steps[0] += 1;
    }
};

struct Sized {
    std::size_t n;
    std::size_t size() const { return n; }
};

}  // namespace

TEST_CASE("a hundred steps are those of one worker on the joined batch, bitwise equal on all") {
    on_workers({1, 2, 3, 5}, [](const World& world) {
        Net net;
        hvd::DistributedOptimizer optimizer{world, net, Sgd{}};
        double expected = 0;
        for (int step = 0; step < 100; ++step) {
            double mean = 0;
            for (int r = 0; r < world.size(); ++r) mean += (r + 1) * 0.001 * step / world.size();
            net.backward((world.rank() + 1) * 0.001 * step);
            optimizer.step();
            expected -= mean;
        }
        expect(std::abs(net.a[0] - expected) < 1e-4 && std::abs(net.b[2] - 2 * expected) < 1e-9, "as one worker");
        const auto all = hvd::allgather(world, net.a);
        for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == net.a[i % 5], "the same bits on all");
        expect(optimizer.plan().reused >= 90 && optimizer.plan().control_messages == 0, "by one plan");
    });
}

TEST_CASE("gradients are announced in any order, some or none, others on each rank") {
    on_workers({1, 2, 3}, [](const World& world) {
        Net net;
        hvd::DistributedOptimizer optimizer{world, net, Sgd{}};
        for (int step = 0; step < 12; ++step) {
            net.backward(world.rank());
            const int which = (step + world.rank()) % 4;
            if (which == 0) {
                optimizer.gradient_ready("c");
                optimizer.gradient_ready(0);
            } else if (which == 1) {
                for (std::size_t i : {2u, 1u, 0u}) optimizer.gradient_ready(i);
            } else if (which == 2) {
                optimizer.gradient_ready("b");
            }
            optimizer.step();
            expect(net.dc[399] == static_cast<float>(-(world.size() - 1) / 2.0), "the mean of all");
            expect(optimizer.unannounced().size() == (which == 0   ? 1u
                                                      : which == 1 ? 0u
                                                      : which == 2 ? 2u
                                                                   : 3u),
                   "and which came late");
        }
        net.backward(1);
        if (world.rank() == 0) optimizer.no_gradient("a");
        optimizer.synchronize();
        expect(std::abs(net.da[0] - static_cast<float>(world.size() - 1) / static_cast<float>(world.size())) < 1e-6f,
               "no gradient is zero, and the mean divides by all");
        optimizer.apply();
    });
}

TEST_CASE("the passes of one window are all weighted, or none is") {
    on_workers({1, 2}, [](const World& world) {
        for (bool weighted_first : {true, false}) {
            Net net;
            hvd::DistributedOptimizer optimizer{world, net, Sgd{}, {.accumulate = 2}};
            const std::vector<int> batch(4);
            if (weighted_first) optimizer.step(batch);
            else optimizer.step();
            const auto refused = [&](auto&& call) {
                const std::string text = expect_throws<hvd::UsageError>(call);
                expect(text.find("window") != std::string::npos, text);
            };
            if (weighted_first) {
                refused([&] { optimizer.step(); });
                refused([&] { optimizer.synchronize(); });
                refused([&] { optimizer.gradient_ready(0); });
                optimizer.step(batch);
            } else {
                refused([&] { optimizer.step(batch); });
                optimizer.step();
            }
        }
    });
}

TEST_CASE("accumulation equals a larger batch; no_sync and flush") {
    on_workers({1, 2, 3}, [](const World& world) {
        const double ranks = (world.size() - 1) / 2.0;
        Net net;
        hvd::DistributedOptimizer optimizer{world, net, Sgd{}, {.accumulate = 3}};
        for (int pass = 0; pass < 6; ++pass) {
            net.backward(pass + world.rank());
            if (pass % 3 == 1) optimizer.gradient_ready("a");  // in a pass that does not communicate
            if (pass % 3 == 2) optimizer.gradient_ready("c");
            optimizer.step();
        }
        expect(std::abs(net.b[0] + 2 * ((1 + ranks) + (4 + ranks))) < 1e-9, "the mean over three passes");
        net.backward(7 + world.rank());
        optimizer.step();
        optimizer.flush();
        expect(std::abs(net.b[0] + 2 * ((1 + ranks) + (4 + ranks) + (7 + ranks))) < 1e-9,
               "a window of one pass divides by one");
        const double before = net.b[0];
        optimizer.flush();
        expect(net.b[0] == before, "nothing to flush");

        Net other;
        hvd::DistributedOptimizer plain{world, other, Sgd{}};
        {
            const auto guard = plain.no_sync();
            other.backward(2);
            plain.step();
            other.backward(4);
            plain.step();
        }
        expect(other.a[0] == 0.0f, "under no_sync nothing is applied");
        other.backward(6);
        plain.step();
        expect(other.a[0] == -4.0f, "the mean over all passes");
    });
}

TEST_CASE("uneven batches are weighted, an empty one counts for nothing, whatever its gradient") {
    on_workers({1, 2, 3}, [](const World& world) {
        Net net;
        hvd::DistributedOptimizer optimizer{world, net, Sgd{}};
        const bool is_empty = world.size() > 1 && world.rank() == 0;
        const std::size_t n = is_empty ? 0 : static_cast<std::size_t>(2 * world.rank() + 1);
        double total = 0, sum = 0;
        for (int r = world.size() > 1 ? 1 : 0; r < world.size(); ++r) {
            total += 2 * r + 1;
            sum += (2 * r + 1) * r;
        }
        net.backward(is_empty ? std::nan("") : world.rank());
        optimizer.step(Sized{n});
        expect(std::abs(net.b[0] + 2 * sum / total) < 1e-12, "the mean over samples");
        net.backward(1);
        optimizer.step();
        expect(std::abs(net.b[0] + 2 * sum / total + 2) < 1e-12, "and an even step after it");
    });
}

TEST_CASE("16 bits on the wire, integers untouched, overflow reported") {
    on_workers({1, 2, 3}, [](const World& world) {
        Net net;
        hvd::DistributedOptimizer half{world, net, Sgd{}, hvd::Fp16{}};
        net.backward(0.25);
        half.step();
        expect(net.a[0] == -0.25f && net.b[0] == -0.5 && half.overflows() == 0, "halves");
        net.backward(1e6);
        half.synchronize();
        expect(half.overflows() == 408 && std::isinf(net.da[0]), "all of them overflow");
        half.apply();
        Net wide;
        hvd::DistributedOptimizer brain{world, wide, Sgd{}, hvd::Bf16{}, {.op = hvd::Reduction::Sum}};
        wide.backward(1e6);
        brain.step();
        expect(std::abs(wide.a[0] + 1e6f * static_cast<float>(world.size())) < 1e4f * static_cast<float>(world.size()),
               "bfloat16 has float's range");
    });
}

TEST_CASE("adasum of parallel gradients is their mean; sum is the sum") {
    on_workers({1, 2, 4}, [](const World& world) {
        Net net;
        hvd::DistributedOptimizer adasum{world, net, Sgd{}, {.op = hvd::Reduction::Adasum}};
        net.backward(3);
        adasum.step();
        expect(std::abs(net.a[0] + 3) < 1e-5f, "mean");
        hvd::DistributedOptimizer sum{world, net, Sgd{}, {.op = hvd::Reduction::Sum}};
        net.backward(1);
        sum.step();
        expect(std::abs(net.b[0] + 6 + 2 * world.size()) < 1e-6, "sum");
    });
}

TEST_CASE("bound gradients keep their values, are reduced in place, and outlive the optimizer") {
    on_workers({1, 2, 3}, [](const World& world) {
        struct Model {
            Rebound w{1000}, dw{1000}, v{7}, dv{7};
            std::vector<double> b = std::vector<double>(3), db = b;
            auto parameters() { return std::tie(w, v, b); }
            auto gradients() { return std::tie(dw, dv, db); }
        } model;
        struct Nothing {
            void step(Model&) {}
        };
        for (std::size_t i = 0; i < 1000; ++i) model.dw.data[i] = static_cast<float>(i);
        const float* before = model.dw.data;
        {
            hvd::DistributedOptimizer optimizer{world, model, Nothing{}};
            optimizer.bind_gradients();
            expect(model.dw.data != before && model.dw.data[999] == 999.0f, "moved with its values");
            for (int step = 0; step < 3; ++step) {
                for (std::size_t i = 0; i < 1000; ++i) model.dw.data[i] = static_cast<float>(world.rank());
                for (std::size_t i = 0; i < 7; ++i) model.dv.data[i] = static_cast<float>(step);
                model.db.assign(3, world.rank());
                optimizer.step();
                expect(model.dw.data[500] == static_cast<float>(world.size() - 1) / 2 &&
                           model.dv.data[6] == static_cast<float>(step),
                       "reduced");
                expect(model.db[0] == (world.size() - 1) / 2.0, "what cannot be rebound, too");
            }
        }
        expect(model.dw.data[999] == static_cast<float>(world.size() - 1) / 2, "the memory stays valid");
        model.dw.data[0] = 1;
    });
}

TEST_CASE("wrong use is one sentence, and the optimizer goes on") {
    on_workers({2}, [](const World& world) {
        Net net;
        hvd::DistributedOptimizer optimizer{world, net, Sgd{}};
        expect(expect_throws<hvd::UsageError>([&] { optimizer.apply(); }).find("synchronize") != std::string::npos,
               "apply without synchronize");
        net.backward(1);
        optimizer.synchronize();
        expect(!expect_throws<hvd::UsageError>([&] { optimizer.synchronize(); }).empty(), "synchronize twice");
        expect(!expect_throws<hvd::UsageError>([&] { optimizer.step(); }).empty(), "step after synchronize");
        expect(!expect_throws<hvd::UsageError>([&] { optimizer.gradient_ready(0); }).empty(),
               "gradient_ready after synchronize");
        optimizer.apply();
        expect(expect_throws<hvd::UsageError>([&] { optimizer.gradient_ready("d"); }).find("'d'") != std::string::npos,
               "unknown name");
        expect(expect_throws<hvd::UsageError>([&] { optimizer.gradient_ready(3); }).find("3") != std::string::npos,
               "unknown number");
        optimizer.gradient_ready("a");
        expect(expect_throws<hvd::UsageError>([&] { optimizer.gradient_ready(0); }).find("'a'") != std::string::npos,
               "announced twice");
        expect(!expect_throws<hvd::UsageError>([&] { optimizer.step(Sized{3}); }).empty(),
               "weighted after it was announced");
        optimizer.step();
        expect(!expect_throws<hvd::UsageError>([&] {
                    hvd::DistributedOptimizer wrong{world, net, Sgd{}, {.accumulate = 0}};
                }).empty(),
               "accumulate = 0");
        net.da.resize(4);
        expect(expect_throws<hvd::UsageError>([&] {
                   hvd::DistributedOptimizer wrong{world, net, Sgd{}};
               }).find("gradient 0") != std::string::npos,
               "lengths");
    });
}

TEST_CASE("gradients that share memory are refused") {
    on_workers({1, 2}, [](const World& world) {
        struct Tied {
            std::vector<float> w = std::vector<float>(3), dw = w;
            auto parameters() { return std::tie(w, w); }
            auto gradients() { return std::tie(dw, dw); }
        } model;
        struct Nothing {
            void step(Tied&) {}
        };
        const std::string text = expect_throws<hvd::UsageError>([&] {
            hvd::DistributedOptimizer{world, model, Nothing{}};
        });
        expect(text.find("share memory") != std::string::npos, text);
    });
}

TEST_CASE("two optimizers are stepped in different orders on different ranks when all was announced") {
    on_workers({2, 3}, [](const World& world) {
        Net first, second;
        hvd::DistributedOptimizer one{world, first, Sgd{}}, two{world, second, Sgd{}};
        for (int step = 0; step < 5; ++step) {
            first.backward(1);
            second.backward(2);
            for (const char* name : {"a", "b", "c"}) {
                one.gradient_ready(name);
                two.gradient_ready(name);
            }
            if (world.rank() % 2 == 0) {
                one.step();
                two.step();
            } else {
                two.step();
                one.step();
            }
        }
        expect(first.a[0] == -5.0f && second.a[0] == -10.0f, "steps");
    });
}

TEST_CASE("parameters and optimizer state become those of the root") {
    on_workers({1, 2, 3}, [](const World& world) {
        Net net;
        net.a.assign(5, static_cast<float>(world.rank() + 1));
        hvd::broadcast_parameters(world, net);
        expect(net.a[4] == 1.0f, "parameters");
        Sgd sgd;
        sgd.steps.assign(static_cast<std::size_t>(world.rank() + 1), world.rank() + 5);
        hvd::broadcast_optimizer_state(world, sgd);
        expect(sgd.steps == std::vector<double>{5}, "state, also of another length");
        hvd::DistributedOptimizer optimizer{world, net, sgd};
        optimizer.inner().steps[0] = world.rank();
        hvd::broadcast_optimizer_state(world, optimizer, world.size() - 1);
        expect(optimizer.inner().steps[0] == world.size() - 1, "through the wrapper");
        expect(hvd::average_metric(world, world.rank()) == (world.size() - 1) / 2.0, "metric");
        expect(hvd::scale_rate(0.5f, world) == 0.5f * static_cast<float>(world.size()), "rate");
    });
}
