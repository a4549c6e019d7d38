// A training that is made to fail: its workers are killed as HVD_TEST_FAULTS says, or from outside. Prints a line that begins
// with OK when every sample was part of exactly one committed step per epoch and all workers have the same parameters.
#include <hvd/hvd.hpp>
#include <hvd/testing/fault_point.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::string setting(const char* name, const std::string& otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : otherwise;
}
int number(const char* name, int otherwise) { return std::atoi(setting(name, std::to_string(otherwise)).c_str()); }

// Counts its samples, and learns something that depends on their order and on every rounding.
struct Model {
    std::vector<double> count, gradient;
    std::vector<float> weight, slope;
    explicit Model(std::size_t samples) : count(samples), gradient(samples), weight(16, 1.f), slope(16) {}
    auto parameters() { return std::tie(count, weight); }
    auto gradients() { return std::tie(gradient, slope); }

    template <class Batch>
    void backward(const Batch& batch) {
        gradient.assign(gradient.size(), 0.0);
        slope.assign(slope.size(), 0.f);
        for (const std::size_t sample : batch) {
            gradient[sample] += 1;
            for (std::size_t i = 0; i < slope.size(); ++i)
                slope[i] += weight[i] * 0.01f * static_cast<float>((sample * 31 + i * 17) % 101) - 0.3f;
        }
    }
};
struct Momentum {
    std::vector<float> speed;
    std::vector<double> steps;
    auto state() { return std::tie(speed, steps); }
    void step(Model& m) {
        speed.resize(m.weight.size());
        steps.resize(1);
        steps[0] += 1;
        for (std::size_t i = 0; i < m.count.size(); ++i) m.count[i] += m.gradient[i];
        for (std::size_t i = 0; i < m.weight.size(); ++i) {
            speed[i] = 0.9f * speed[i] + m.slope[i];
            m.weight[i] -= 0.001f * speed[i];
        }
    }
};

// "rank|point|time|signal|token;..." as FaultPoint takes them.
std::deque<hvd::testing::FaultPoint>& faults() {
    static std::deque<hvd::testing::FaultPoint> all;
    return all;
}
void read_faults() {
    std::istringstream list{setting("HVD_TEST_FAULTS", "")};
    for (std::string fault; std::getline(list, fault, ';');) {
        std::istringstream words{fault};
        std::string rank, point, time, signal, token;
        std::getline(words, rank, '|');
        std::getline(words, point, '|');
        std::getline(words, time, '|');
        std::getline(words, signal, '|');
        std::getline(words, token, '|');
        faults().emplace_back(point, std::stoi(rank), std::stoi(time), std::stoi(signal), token);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int early_rank = std::atoi(setting("PMI_RANK", setting("OMPI_COMM_WORLD_RANK", "-1")).c_str());
    if (early_rank >= 0) read_faults();
    hvd::detail::fault_point("program: before launch", early_rank);
    const auto samples = static_cast<std::size_t>(number("HVD_TEST_SAMPLES", 300));
    const auto epochs = static_cast<std::size_t>(number("HVD_TEST_EPOCHS", 3));
    const int thrower = number("HVD_TEST_THROW", -1), early = number("HVD_TEST_RETURN", -1);
    const std::chrono::duration<double> deadline{std::stod(setting("HVD_TEST_DEADLINE", "30"))};
    std::vector<std::size_t> set(samples);
    std::iota(set.begin(), set.end(), std::size_t{0});

    const auto body = [&](auto& world) {
        Model model{samples};
        hvd::ShardedDataset data{set, world, {.batch_size = 7, .seed = 3, .last = hvd::Last::Uneven}};
        hvd::DistributedOptimizer optimizer{world, model, Momentum{}, {.op = hvd::Reduction::Sum}};
        hvd::broadcast_parameters(world, model);
        if (number("HVD_TEST_READ", 0) != 0) {
            const auto lines = std::count(std::istreambuf_iterator<char>{std::cin}, {}, '\n');
            std::printf("rank %d has read %d lines\n", world.rank(), static_cast<int>(lines));
        }
        int turn = 0;
        for (std::size_t epoch = 0; epoch < epochs; ++epoch)
            for (auto batch : data.epoch(epoch)) {
                model.backward(batch);
                hvd::detail::fault_point("program: in backward", world.rank());
                if (++turn == 5 && world.rank() == thrower) throw std::runtime_error{"the user's own words"};
                if (turn == 5 && world.rank() == early) return;
                optimizer.step();
                hvd::detail::fault_point("program: between steps", world.rank());
            }
        for (const double c : model.count)
            if (c != static_cast<double>(epochs)) throw std::runtime_error{"a sample was lost or used twice"};
        for (const float w : hvd::allgather(world, model.weight))
            if (!(w == w)) throw std::runtime_error{"a weight is not a number"};
        const std::vector<float> all = hvd::allgather(world, model.weight);
        for (std::size_t i = 0; i < all.size(); ++i)
            if (all[i] != model.weight[i % model.weight.size()])
                throw std::runtime_error{"the workers have different parameters"};
        if (world.rank() != 0) return;
        unsigned long long hash = 1;
        for (const float w : model.weight) {
            unsigned bits = 0;
            std::memcpy(&bits, &w, sizeof bits);
            hash = hash * 1000003u + bits;
        }
        std::printf("OK with %d workers, %.0f steps, hash %llx\n", world.size(), optimizer.inner().steps[0], hash);
    };
    const int code = hvd::launch<hvd::Mpi>(
        argc, argv, body,
        {.workers = number("HVD_TEST_WORKERS", 3),
         .elastic = true,
         .min_workers = number("HVD_TEST_MIN", 1),
         .on_failure =
             setting("HVD_TEST_POLICY", "replace") == "shrink" ? hvd::OnFailure::Shrink : hvd::OnFailure::Replace,
         .deadline = deadline,
         .rejoin_timeout = std::chrono::seconds{number("HVD_TEST_REJOIN", 60)},
         .checkpoint = setting("HVD_TEST_CHECKPOINT", "")});
    hvd::detail::fault_point("program: after launch", early_rank);
    if (number("HVD_TEST_LAUNCHES", 1) > 1) {
        const int second = hvd::launch<hvd::Mpi>(argc, argv,
                                                 [](auto& world) {
                                                     int one[] = {1};
                                                     hvd::allreduce(world, one);
                                                     if (world.rank() == 0)
                                                         std::printf("second OK with %d workers\n", one[0]);
                                                 },
                                                 {.workers = 2, .elastic = true});
        return code + second;
    }
    return code;
}
