// All algorithms in all the ways that are tried with every element type.
#pragma once

#include "every_algorithm.hpp"
#include "sweep.hpp"

namespace {

struct Choice {
    std::string title;
    Chosen algorithm;
    std::vector<int> ranks_per_node{0};
    hvd::testing::AlgorithmSuiteOptions options{};
};

// All of them; in small segments, so that short tensors have many; and on even and uneven nodes.
inline std::vector<Choice> choices() {
    const hvd::testing::AlgorithmSuiteOptions every_path{.lengths = {0, 1, 7, 289, 4913}, .type_lengths = {1, 37}};
    const std::vector<int> nodes{0, 1, 2, 3};
    RingTree ring_tree;
    ring_tree.intra.segment_bytes = 24;
    ring_tree.inter.double_from = 0;
    return {
        {"Ring", chosen(hvd::Ring{})},
        {"Ring in segments", chosen(in_segments<hvd::Ring>(48)), {0}, every_path},
        {"Tree", chosen(hvd::Tree{})},
        {"Tree, two trees in segments", chosen(two_trees(40)), {0}, every_path},
        {"Tree, two trees", chosen(two_trees(0)), {0}, every_path},
        {"HalvingDoubling", chosen(hvd::HalvingDoubling{})},
        {"HalvingDoubling in segments", chosen(in_segments<hvd::HalvingDoubling>(16)), {0}, every_path},
        {"Hierarchical{Ring, Tree}", chosen(RingTree{}), nodes},
        {"Hierarchical{Ring, Tree} in segments", chosen(ring_tree), {2, 3}, every_path},
        {"Hierarchical{Tree, Ring}", chosen(TreeRing{}), nodes, every_path},
        {"Hierarchical{HalvingDoubling, Ring}", chosen(HalvingRing{}), nodes, every_path},
    };
}

// Every choice on worlds of all sizes.
template <class Elements>
void sweep_choices() {
    for (const Choice& choice : choices()) {
        CAPTURE(choice.title);
        for (int per_node : choice.ranks_per_node) {
            CAPTURE(per_node);
            sweep([&](auto& world) { check_algorithm<Elements>(world, choice.algorithm, choice.options); }, all_sizes,
                  per_node);
        }
    }
}

}  // namespace
