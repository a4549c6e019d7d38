// Hierarchical: reduce inside each node, between nodes, and spread inside the node again. When Intra can split, a rank
// sends 2(N-1)/N n/l bytes between nodes, for N nodes of l ranks; nodes may differ in size.
// Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy", SysML 2019.
#pragma once

#include <hvd/algorithm/hierarchical_run.hpp>

namespace hvd {

/// Allreduce in two levels: `Intra` inside nodes, `Inter` between them.
template <class Intra, class Inter>
struct Hierarchical {
    static constexpr std::string_view name = "hierarchical";
    static constexpr bool is_tagged = detail::is_tagged<Intra>() && detail::is_tagged<Inter>();

    Intra intra{};
    Inter inter{};
    /// Longer tensors go in blocks of this many bytes, one between nodes while others are inside. 0: never.
    std::size_t block_bytes = std::size_t{4} << 20;
    std::vector<std::size_t> settings() const {
        std::vector<std::size_t> all = detail::settings_of(intra);
        for (std::size_t number : detail::settings_of(inter)) all.push_back(number);
        all.push_back(block_bytes);
        return all;
    }

    template <Transport T>
    using State = detail::HierarchicalState<T, detail::AlgorithmState<Intra, T>, detail::AlgorithmState<Inter, T>>;

    template <Transport T>
    State<T> prepare(T& transport) const {
        const Topology& nodes = transport.topology();
        T inside = transport.subgroup(nodes.ranks_on_my_node(), 0);
        auto intra_state = intra.prepare(inside);
        State<T> state{std::move(inside), std::move(intra_state)};
        state.inside_ranks = nodes.ranks_on_my_node();
        state.between_ranks = nodes.ranks_with_my_place();
        state.shares = static_cast<std::size_t>(nodes.smallest_node());
        state.overlaps = nodes.nodes() > 1 && nodes.nodes() < nodes.size();
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
Hierarchical(Intra, Inter, std::size_t = 0) -> Hierarchical<Intra, Inter>;

}  // namespace hvd
