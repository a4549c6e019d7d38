// Auto, which takes another way for each length: with the agreement, Tree, HalvingDoubling, Ring, and over two levels.
#include "sweep.hpp"

TEST_CASE("auto") {
    const hvd::testing::AlgorithmSuiteOptions all{};
    sweep([&](auto& world) { check_algorithm(world, hvd::Auto{}, all); }, all_sizes);
}

TEST_CASE("auto, every path also for short tensors") {
    const hvd::AutoTable table{.halving_from = 64, .ring_from = 256};
    const hvd::testing::AlgorithmSuiteOptions short_ones{.lengths = {0, 1, 15, 16, 17, 63, 64, 65, 1100},
                                                         .type_lengths = {1, 60}};
    for (int per_node : {0, 1, 2, 3}) {
        CAPTURE(per_node);
        sweep([&](auto& world) { check_algorithm(world, hvd::Auto{.table = table}, short_ones); }, {2, 3, 4, 5, 8, 9},
              per_node);
    }
}
