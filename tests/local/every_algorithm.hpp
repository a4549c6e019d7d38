// An algorithm that is chosen at run time among all that send messages, so that all are compiled for each type only once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hvd/hvd.hpp>

namespace {

template <class... A>
struct OneOf {
    static constexpr std::string_view name = "one_of";
    static constexpr bool is_tagged = (hvd::detail::is_tagged<A>() && ...);

    std::tuple<std::optional<A>...> algorithms{};

    template <class Choice>
    static OneOf with(Choice choice) {
        OneOf result;
        std::get<std::optional<Choice>>(result.algorithms) = std::move(choice);
        return result;
    }

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

    template <hvd::Transport T>
    std::unique_ptr<hvd::detail::Operation> start_fold(hvd::Channel<T> channel, State<T>& state, void* data,
                                                       std::size_t n, hvd::Fold fold) const {
        std::unique_ptr<hvd::detail::Operation> operation;
        for_the_one([&](auto index, const auto& algorithm) {
            operation = algorithm.start_fold(channel, *std::get<index>(state.states), data, n, fold);
        });
        return operation;
    }

    template <hvd::Transport T, hvd::Scalar E, class Op>
    void run(hvd::Channel<T> channel, State<T>& state, std::span<E> data, const Op& op) const {
        hvd::detail::run_started(*this, channel, state, data, op);
    }

private:
    template <class F>
    void for_the_one(F f) const {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            const auto visit = [&](auto index, const auto& algorithm) {
                if (algorithm) f(index, *algorithm);
            };
            (visit(std::integral_constant<std::size_t, I>{}, std::get<I>(algorithms)), ...);
        }
        (std::index_sequence_for<A...>{});
    }
};

using RingTree = hvd::Hierarchical<hvd::Ring, hvd::Tree>;
using TreeRing = hvd::Hierarchical<hvd::Tree, hvd::Ring>;
using HalvingRing = hvd::Hierarchical<hvd::HalvingDoubling, hvd::Ring>;
using Chosen = OneOf<hvd::Ring, hvd::Tree, hvd::HalvingDoubling, RingTree, TreeRing, HalvingRing>;

template <class A>
Chosen chosen(A algorithm) {
    return Chosen::with(std::move(algorithm));
}

// An algorithm whose segments are of `bytes`.
template <class A>
A in_segments(std::size_t bytes) {
    A algorithm;
    algorithm.segment_bytes = bytes;
    return algorithm;
}

// The double tree for tensors of any length.
[[maybe_unused]] hvd::Tree two_trees(std::size_t segment_bytes) {
    auto tree = in_segments<hvd::Tree>(segment_bytes);
    tree.double_from = 0;
    return tree;
}

// `body(comm)` with each of them, and with Auto.
template <class World, class Body>
void with_every_algorithm(const World& world, Body body) {
    body(world);
    for (const Chosen& algorithm :
         {chosen(hvd::Ring{}), chosen(in_segments<hvd::Ring>(3000)), chosen(hvd::Tree{}), chosen(two_trees(3000)),
          chosen(hvd::HalvingDoubling{}), chosen(in_segments<hvd::HalvingDoubling>(3000)), chosen(RingTree{}),
          chosen(TreeRing{})})
        body(world.with(algorithm));
}

}  // namespace
