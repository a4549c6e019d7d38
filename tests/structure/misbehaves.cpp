// A program that fails in each way that the harness of the unit tests must end: see check_harness.py.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <hvd/comm/barrier.hpp>
#include <hvd/comm/launch.hpp>

TEST_CASE("passes") { CHECK(true); }

TEST_CASE("require") { REQUIRE(1 + 1 == 3); }

TEST_CASE("throw") { throw std::runtime_error{"thrown on purpose"}; }

TEST_CASE("hang") { std::this_thread::sleep_for(std::chrono::minutes{10}); }

TEST_CASE("worker exits") {
    hvd::launch<hvd::Local>(2, [](auto& world) {
        if (world.rank() == 1) std::exit(0);
        hvd::barrier(world);
    });
}

TEST_CASE("slow but alive") {
    for (int i = 0; i < 8; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds{500});
        CHECK(i >= 0);
    }
}
