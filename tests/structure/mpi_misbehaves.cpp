// A program that fails in each way that the harness of the MPI tests must end: see check_harness.py.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

using hvd_test::comm;
using hvd_test::rank;
using hvd_test::size;

namespace {

bool is_last() { return rank() == size() - 1; }

int sum_of_ranks() {
    int mine = rank();
    int sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm());
    return sum;
}

}  // namespace

TEST_CASE("passes") {
    SUBCASE("once") { CHECK(sum_of_ranks() == size() * (size() - 1) / 2); }
    SUBCASE("twice") { CHECK(sum_of_ranks() == size() * (size() - 1) / 2); }
}

TEST_CASE("check") {
    CHECK(!is_last());
    CHECK(sum_of_ranks() >= 0);
}

TEST_CASE("require") {
    CAPTURE(size());
    REQUIRE(!is_last());
    sum_of_ranks();
}

TEST_CASE("fail") {
    if (is_last()) FAIL("on purpose");
    sum_of_ranks();
}

TEST_CASE("throw") {
    if (is_last()) throw std::runtime_error{"thrown on purpose"};
    sum_of_ranks();
}

TEST_CASE("throw in check") {
    CHECK((is_last() ? throw std::runtime_error{"thrown on purpose"} : true));
    sum_of_ranks();
}

TEST_CASE("hang") {
    if (is_last()) std::this_thread::sleep_for(std::chrono::minutes{10});
    sum_of_ranks();
}

TEST_CASE("hang while others are done") {
    if (is_last()) std::this_thread::sleep_for(std::chrono::minutes{10});
}

TEST_CASE("exit") {
    if (is_last()) std::_Exit(3);
    sum_of_ranks();
}
