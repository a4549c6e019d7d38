// The worlds on which every algorithm is tried.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>

namespace {

using hvd::testing::check_algorithm;

[[maybe_unused]] const std::vector<int> all_sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16};

// Runs `body(world)` on worlds of these sizes.
template <class Body>
void sweep(const Body& body, const std::vector<int>& sizes, int ranks_per_node = 0) {
    for (int workers : sizes) {
        CAPTURE(workers);
        CHECK(hvd::launch<hvd::Local>({.workers = workers, .ranks_per_node = ranks_per_node}, body) == 0);
    }
}

}  // namespace
