// An algorithm that is chosen at run time among all that send messages, so that all are compiled for each type only once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sweep.hpp"

namespace {

template <class... A>
struct OneOf {
    static constexpr std::string_view name = "one_of";
    static constexpr bool is_tagged = true;

    std::tuple<std::optional<A>...> algorithms{};

    template <class T>
    struct State {
        std::tuple<std::optional<hvd::detail::AlgorithmState<A, T>>...> states;
    };

    template <hvd::Transport T>
    State<T> prepare(T& transport) const {
        State<T> result;
        for_the_one([&](auto index, const auto& algorithm) {
            std::get<index>(result.states).emplace(algorithm.prepare(transport));
        });
        return result;
    }

    template <hvd::Transport T, hvd::Scalar E, class Op>
    std::unique_ptr<hvd::detail::Operation> start(hvd::Channel<T> channel, State<T>& state, std::span<E> data,
                                                  const Op& op) const {
        std::unique_ptr<hvd::detail::Operation> operation;
        for_the_one([&](auto index, const auto& algorithm) {
            operation = algorithm.start(channel, *std::get<index>(state.states), data, op);
        });
        return operation;
    }

    template <hvd::Transport T, hvd::Scalar E, class Op>
    void run(hvd::Channel<T> channel, State<T>& state, std::span<E> data, const Op& op) const {
        hvd::detail::wait_for(*start(channel, state, data, op), channel, name);
    }

private:
    template <class F>
    void for_the_one(F f) const {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            const auto visit = [&](auto index, const auto& algorithm) {
                if (algorithm) f(index, *algorithm);
            };
            (visit(std::integral_constant<std::size_t, I>{}, std::get<I>(algorithms)), ...);
        }(std::index_sequence_for<A...>{});
    }
};

using RingTree = hvd::Hierarchical<hvd::Ring, hvd::Tree>;
using TreeRing = hvd::Hierarchical<hvd::Tree, hvd::Ring>;
using HalvingRing = hvd::Hierarchical<hvd::HalvingDoubling, hvd::Ring>;
using Chosen = OneOf<hvd::Ring, hvd::Tree, hvd::HalvingDoubling, RingTree, TreeRing, HalvingRing>;

template <class A>
Chosen chosen(A algorithm) {
    Chosen result;
    std::get<std::optional<A>>(result.algorithms) = std::move(algorithm);
    return result;
}

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
    hvd::Tree double_tree = in_segments<hvd::Tree>(40), two_halves = double_tree;
    double_tree.double_from = 0;
    two_halves.double_from = 0;
    two_halves.segment_bytes = 0;
    RingTree ring_tree;
    ring_tree.intra.segment_bytes = 24;
    ring_tree.inter.double_from = 0;
    return {
        {"Ring", chosen(hvd::Ring{})},
        {"Ring in segments", chosen(in_segments<hvd::Ring>(48)), {0}, every_path},
        {"Tree", chosen(hvd::Tree{})},
        {"Tree, two trees in segments", chosen(double_tree), {0}, every_path},
        {"Tree, two trees", chosen(two_halves), {0}, every_path},
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
            sweep([&](auto& world) { check_algorithm<Elements>(world, choice.algorithm, choice.options); }, all_sizes, per_node);
        }
    }
}

}  // namespace
