// Hierarchical: reduce inside each node, between nodes, and spread inside the node again. When Intra can split, a rank
// sends 2(N-1)/N n/l bytes between nodes, for N nodes of l ranks; nodes may differ in size.
// Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy", SysML 2019.
#pragma once

#include <optional>

#include <hvd/algorithm/ring.hpp>
#include <hvd/algorithm/work.hpp>

namespace hvd {
namespace detail {

/// The parts of a communicator that Hierarchical works on. `between` is empty on ranks beyond the smallest node's size.
template <Transport T, class IntraState, class InterState>
struct HierarchicalState {
    T inside;
    IntraState intra;
    ScratchState spread{};
    std::optional<T> between{};
    std::optional<InterState> inter{};
    std::size_t shares = 1;  // how many ranks of each node carry data between nodes
};

/// The three phases, one after the other.
template <class H, Transport T, class Work>
class HierarchicalRun final : public StagedOperation {
public:
    HierarchicalRun(const H& algorithm, Channel<T> channel, typename H::template State<T>& state, Work work)
        : StagedOperation{3},
          algorithm_{algorithm},
          state_{state},
          inside_{state.inside, channel.tag()},
          work_{work},
          blocks_{offsets(work.size(), state.shares, static_cast<std::size_t>(state.inside.size()))} {}

private:
    static std::vector<std::size_t> offsets(std::size_t n, std::size_t shares, std::size_t ranks) {
        std::vector<std::size_t> begin(ranks + 1, n);
        for (std::size_t i = 0; i < shares; ++i) begin[i] = split_begin(n, shares, i);
        return begin;
    }

    std::unique_ptr<Operation> begin(int phase) override {
        const auto& intra = algorithm_.intra;
        if (phase == 1) {
            if (!state_.between) return nullptr;
            const auto rank = static_cast<std::size_t>(inside_.rank());
            const std::size_t first = blocks_.begin(rank), n = blocks_.begin(rank + 1) - first;
            return work_.start(algorithm_.inter, Channel<T>{*state_.between, inside_.tag()}, *state_.inter, first, n);
        }
        if (inside_.size() == 1) return nullptr;
        const std::size_t element = work_.fold().element();
        if constexpr (Splits<std::remove_cvref_t<decltype(intra)>, T>) {
            if (phase == 0)
                return intra.start_reduce_scatter(inside_, state_.intra, work_.begin(), blocks_, work_.fold());
            return intra.start_allgather(inside_, state_.intra, work_.begin(), blocks_, element);
        } else {
            if (phase == 0) return work_.start(intra, inside_, state_.intra, 0, work_.size());
            return Ring{}.start_allgather(inside_, state_.spread, work_.begin(), blocks_, element);
        }
    }

    const H& algorithm_;
    typename H::template State<T>& state_;
    Channel<T> inside_;
    Work work_;
    Layout blocks_;
};

}  // namespace detail

/// Allreduce in two levels: `Intra` inside nodes, `Inter` between them.
template <class Intra, class Inter>
struct Hierarchical {
    static constexpr std::string_view name = "hierarchical";
    static constexpr bool is_tagged = detail::is_tagged<Intra>() && detail::is_tagged<Inter>();

    Intra intra{};
    Inter inter{};

    template <Transport T>
    using State = detail::HierarchicalState<T, detail::AlgorithmState<Intra, T>, detail::AlgorithmState<Inter, T>>;

    template <Transport T>
    State<T> prepare(T& transport) const {
        const Topology& nodes = transport.topology();
        T inside = transport.subgroup(nodes.ranks_on_my_node(), 0);
        auto intra_state = intra.prepare(inside);
        State<T> state{std::move(inside), std::move(intra_state)};
        state.shares = static_cast<std::size_t>(nodes.smallest_node());
        if (nodes.local_rank() < nodes.smallest_node()) {
            state.between.emplace(transport.subgroup(nodes.ranks_with_my_place(), 1));
            state.inter.emplace(inter.prepare(*state.between));
        }
        return state;
    }

    template <Transport T>
        requires(detail::HasStartFold<Intra, T>&& detail::HasStartFold<Inter, T>)
    std::unique_ptr<detail::Operation> start_fold(Channel<T> channel, State<T>& state, void* data, std::size_t n,
                                                  Fold fold)
    const {
        return std::make_unique<detail::HierarchicalRun<Hierarchical, T, detail::FoldWork>>(
            *this, channel, state, detail::FoldWork{static_cast<std::byte*>(data), n, fold});
    }

    template <Transport T, Scalar E, class Op>
        requires(!detail::HasStartFold<Intra, T> || !detail::HasStartFold<Inter, T>)
    std::unique_ptr<detail::Operation> start(Channel<T> channel, State<T>& state, std::span<E> data, const Op& op)
    const {
        return std::make_unique<detail::HierarchicalRun<Hierarchical, T, detail::TypedWork<E, Op>>>(
            *this, channel, state, detail::TypedWork<E, Op>{data, op});
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, State<T>& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }
};

template <class Intra, class Inter>
Hierarchical(Intra, Inter) -> Hierarchical<Intra, Inter>;

}  // namespace hvd
