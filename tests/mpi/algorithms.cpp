// The allreduce algorithms over MPI.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>

namespace {

using hvd::testing::check_algorithm;
using Few = hvd::testing::Elements<std::int8_t, hvd::bfloat16, float, std::complex<double>>;

const hvd::testing::AlgorithmSuiteOptions short_ones{.lengths = {0, 1, 17, 4913}, .type_lengths = {21}, .at_once = 4};

template <class A>
void check_on(int ranks_per_node, A algorithm, const hvd::testing::AlgorithmSuiteOptions& options = {}) {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm(), ranks_per_node}};
    REQUIRE_NOTHROW(check_algorithm<Few>(world, algorithm, options));
}

}  // namespace

TEST_CASE("Ring") {
    check_on(0, hvd::Ring{});
    hvd::Ring segments;
    segments.segment_bytes = 1024;
    check_on(0, segments, short_ones);
}

TEST_CASE("Tree") {
    check_on(0, hvd::Tree{});
    hvd::Tree two_trees;
    two_trees.double_from = 256;
    two_trees.segment_bytes = 1024;
    check_on(0, two_trees, short_ones);
}

TEST_CASE("HalvingDoubling") {
    check_on(0, hvd::HalvingDoubling{});
    hvd::HalvingDoubling segments;
    segments.segment_bytes = 1024;
    check_on(0, segments, short_ones);
}
