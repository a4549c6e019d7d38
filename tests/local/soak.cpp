// Many steps of the engine leave no memory behind.
#include "workers.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

namespace {

/// Bytes of this process that are in memory.
long resident_bytes() {
    std::ifstream file{"/proc/self/statm"};
    long whole = 0, resident = 0;
    file >> whole >> resident;
    return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("a hundred thousand steps of the engine take no more memory than ten thousand") {
    constexpr int steps = 100'000, settled = 10'000;
    constexpr long allowed = 256 * 1024;
    const auto soak = [&](auto& world) {
        hvd::Engine engine{world, {.background = false}};
        const std::array<std::string, 3> names{"first", "second", "third"};
        std::array<std::vector<float>, 3> tensors{std::vector<float>(1), std::vector<float>(20),
                                                  std::vector<float>(300)};
        const auto p = static_cast<float>(world.size());
        long before = 0;
        for (int step = 1; step <= steps; ++step) {
            std::array<hvd::Request, 3> requests;
            for (std::size_t k = 0; k < 3; ++k) {  // another order on every rank and in every step
                const std::size_t i = (k + static_cast<std::size_t>(step + world.rank())) % 3;
                tensors[i].assign(tensors[i].size(), static_cast<float>(step % 100 + world.rank()));
                requests[k] = engine.allreduce(names[i], tensors[i]);
            }
            engine.synchronize();
            const float sum = p * static_cast<float>(step % 100) + p * (p - 1) / 2;
            for (const auto& t : tensors) expect(t.front() == sum && t.back() == sum, "sum");
            if (step == settled || step == steps) hvd::barrier(world);
            if (step == settled) before = resident_bytes();
        }
        const long grown = resident_bytes() - before;
        expect(grown <= allowed, "memory grew by " + std::to_string(grown) + " bytes");
        const hvd::PlanInfo plan = engine.plan();
        expect(plan.made == 1 && plan.reused == steps - 1, "one plan serves all steps");
        expect(plan.control_messages == 0, "without a control message");
        hvd::barrier(world);
    };
    CHECK(hvd::launch<hvd::Local>({.workers = 2}, soak) == 0);
}
