// launch under mpiexec, in a program that has initialised MPI itself.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include <hvd/hvd.hpp>

namespace {

int argc = 1;
char name[] = "program";
char* argv[] = {name, nullptr};

}  // namespace

TEST_CASE("launch<Mpi>, in all its forms") {
    int ran = 0;
    const auto body = [&](auto& world) {
        ++ran;
        REQUIRE(world.size() == hvd_test::size());
        REQUIRE(world.rank() == hvd_test::rank());
        std::vector<int> x(100, 1);
        hvd::allreduce(world, x);
        REQUIRE(x[99] == world.size());
    };
    REQUIRE(hvd::launch<hvd::Mpi>(argc, argv, body) == 0);
    REQUIRE(hvd::launch<hvd::Mpi>(hvd_test::size(), body) == 0);
    REQUIRE(hvd::launch<hvd::Mpi, hvd::Tree>(argc, argv, body) == 0);
    REQUIRE(hvd::launch<hvd::Mpi>({.workers = hvd_test::size()}, body) == 0);
    REQUIRE(ran == 4);
    int finalised = 1;
    MPI_Finalized(&finalised);
    REQUIRE(finalised == 0);  // by whoever initialised it
}

TEST_CASE("launch takes Mpi under a launcher") {
    bool on_mpi = false;
    REQUIRE(hvd::launch(argc, argv, [&](auto& world) {
                using Transport = typename std::remove_cvref_t<decltype(world)>::transport_type;
                on_mpi = std::string_view{Transport::name} == "mpi";
                hvd::barrier(world);
            }) == 0);
    REQUIRE(on_mpi);
}

TEST_CASE("nodes are pretended, checks are off") {
    const auto body = [](auto& world) {
        REQUIRE(world.local_rank() == hvd_test::rank() % 2);
        REQUIRE(!world.options().checks);
        std::vector<float> x(1000, 1);
        hvd::allreduce(world, x);
        REQUIRE(x[0] == static_cast<float>(world.size()));
    };
    REQUIRE(hvd::launch<hvd::Mpi>(argc, argv, body, {.ranks_per_node = 2, .checks = false}) == 0);
}

TEST_CASE("a number of workers that the launcher did not start") {
    const auto body = [](auto&) { REQUIRE(false); };
    REQUIRE_THROWS_AS(hvd::launch<hvd::Mpi>(hvd_test::size() + 1, body), hvd::UsageError);
    REQUIRE_THROWS_AS(hvd::launch<hvd::Mpi>(argc, argv, body, {.workers = hvd_test::size() + 1}), hvd::UsageError);
    REQUIRE_THROWS_AS(hvd::launch<hvd::Mpi>(0, body), hvd::UsageError);
}

TEST_CASE("a handled error is no failure") {
    REQUIRE(hvd::launch<hvd::Mpi>(argc, argv, [](auto& world) {
                std::vector<float> x(static_cast<std::size_t>(world.rank()));
                try {
                    hvd::allreduce(world, x);
                } catch (const hvd::MismatchError&) {
                }
                hvd::barrier(world);
            }) == 0);
}
