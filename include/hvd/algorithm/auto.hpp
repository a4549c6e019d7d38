// Auto: the algorithm that suits the length of the tensor, the number of ranks, and the nodes they are on.
#pragma once

#include <optional>
#include <type_traits>

#include <hvd/algorithm/direct.hpp>
#include <hvd/algorithm/halving_doubling.hpp>
#include <hvd/algorithm/hierarchical.hpp>
#include <hvd/algorithm/ring.hpp>
#include <hvd/algorithm/tree.hpp>

namespace hvd {

/// From how many bytes on Auto leaves one algorithm for the next, where messages are needed. Measured on one machine; all
/// ranks must have the same.
struct AutoTable {
    /// Below: Tree, which needs the fewest messages.
    std::size_t halving_from = std::size_t{8} * 1024;
    /// Below: HalvingDoubling. From here on: Ring, or Hierarchical when there are several nodes with several ranks.
    std::size_t ring_from = std::size_t{512} * 1024;
};

/// Picks an algorithm per call. The default. Inside a node it is Direct.
struct Auto {
    static constexpr std::string_view name = "auto";
    static constexpr bool is_tagged = false;

    AutoTable table{};

    template <Transport T>
    using Inside = std::conditional_t<detail::SharesMemory<T>, Direct, Ring>;
    template <Transport T>
    using TwoLevel = Hierarchical<Inside<T>, Ring>;

    template <Transport T>
    struct State {
        detail::ScratchState scratch{};
        std::optional<detail::AlgorithmState<Inside<T>, T>> inside{};
        std::optional<typename TwoLevel<T>::template State<T>> two_level{};

        friend detail::DirectState* direct_state_of(State& state) requires detail::SharesMemory<T> {
            return state.inside ? &*state.inside : nullptr;
        }
    };

    template <Transport T>
    State<T> prepare(T& transport) const {
        State<T> state;
        const Topology& nodes = transport.topology();
        if (nodes.nodes() == 1 && nodes.size() > 1) state.inside.emplace(Inside<T>{}.prepare(transport));
        if (nodes.nodes() > 1 && nodes.nodes() < nodes.size())
            state.two_level.emplace(TwoLevel<T>{}.prepare(transport));
        return state;
    }

    template <Transport T>
    std::unique_ptr<detail::Operation> start_fold(Channel<T> channel, State<T>& state, void* data, std::size_t n,
                                                  Fold fold) const {
        static constexpr TwoLevel<T> two_level{};
        const std::size_t bytes = n * fold.element();
        if constexpr (detail::SharesMemory<T>) {
            if (state.inside) return Direct{}.start_fold(channel, *state.inside, data, n, fold);
        }
        if (bytes < table.halving_from) return Tree{}.start_fold(channel, state.scratch, data, n, fold);
        if (bytes < table.ring_from) return HalvingDoubling{}.start_fold(channel, state.scratch, data, n, fold);
        if (state.two_level) return two_level.start_fold(channel, *state.two_level, data, n, fold);
        return Ring{}.start_fold(channel, state.scratch, data, n, fold);
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, State<T>& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }
};

}  // namespace hvd
