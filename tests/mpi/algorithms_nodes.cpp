// The allreduce algorithms that look at nodes, over MPI.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>

namespace {

using hvd::testing::check_algorithm;
using Few = hvd::testing::Elements<std::int8_t, float>;

const hvd::testing::AlgorithmSuiteOptions short_ones{.lengths = {0, 1, 17, 4913}, .type_lengths = {21}, .at_once = 4};

template <class A>
void check_on(int ranks_per_node, A algorithm, const hvd::testing::AlgorithmSuiteOptions& options = {}) {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm(), ranks_per_node}};
    REQUIRE_NOTHROW(check_algorithm<Few>(world, algorithm, options));
}

}  // namespace

TEST_CASE("Hierarchical on pretended nodes") {
    for (int per_node : {1, 2, 3}) check_on(per_node, hvd::Hierarchical{hvd::Ring{}, hvd::Tree{}}, short_ones);
}

TEST_CASE("Auto") {
    check_on(0, hvd::Auto{});
    check_on(2, hvd::Auto{.table = hvd::AutoTable{{{0, "tree"}, {128, "halving_doubling"}, {4096, "hierarchical"}}}},
             short_ones);
}
