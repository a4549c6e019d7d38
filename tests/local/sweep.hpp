// The worlds on which every algorithm is tried.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>

namespace {

using hvd::testing::check_algorithm;

// The numbers of workers of a wide sweep. HVD_TEST_MOST_WORKERS bounds them where threads are slow (sanitizers).
[[maybe_unused]] const std::vector<int> all_sizes = [] {
    const char* bound = std::getenv("HVD_TEST_MOST_WORKERS");
    std::vector<int> sizes;
    for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16})
        if (bound == nullptr || size <= std::atoi(bound)) sizes.push_back(size);
    return sizes;
}();

// Runs `body(world)` on worlds of these sizes.
template <class Body>
void sweep(const Body& body, const std::vector<int>& sizes, int ranks_per_node = 0) {
    for (int workers : sizes) {
        CAPTURE(workers);
        CHECK(hvd::launch<hvd::Local>({.workers = workers, .ranks_per_node = ranks_per_node}, body) == 0);
    }
}

}  // namespace
