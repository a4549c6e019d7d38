// Direct: the ranks of a node reduce straight from each other's memory; no messages. Each rank moves 2(p-1)/p n bytes
// between its peers' memories and its own, the least possible.
#pragma once

#include <algorithm>

#include <hvd/algorithm/direct_run.hpp>
#include <hvd/algorithm/ring.hpp>

namespace hvd {

/// Allreduce through the memory of one node. Sums go from rank 0 up, so the bits do not depend on timing, and 16-bit floats
/// are rounded once. Between nodes it is the `Intra` of Hierarchical.
struct Direct {
    static constexpr std::string_view name = "direct";
    static constexpr bool is_tagged = false;  // operations take turns at the counters

    /// Tensors that lie in no shared memory go through slots of this many bytes per rank.
    std::size_t slot_bytes = std::size_t{1024} * 1024;
    std::size_t slots = 4;
    std::vector<std::size_t> settings() const { return {slot_bytes, slots}; }

    /// Throws UsageError when the ranks are not all on one node. When they cannot share memory it says so on stderr and
    /// sends messages around a ring.
    template <Transport T>
    detail::DirectState prepare(T& transport) const {
        static_assert(detail::SharesMemory<T>,
                      "hvd: Direct needs a transport whose ranks can share memory; use hvd::Ring");
        if (transport.topology().nodes() > 1)
            throw UsageError{"hvd: Direct works inside one node and these ranks are on " +
                             std::to_string(transport.topology().nodes()) + "; use Hierarchical{Direct{}, Ring{}}"};
        if (slots < 2 || slot_bytes < 4096)
            throw UsageError{"hvd: Direct needs at least 2 slots of at least 4096 bytes; give it more"};
        return detail::make_direct_state(transport, slot_bytes, slots);
    }

    template <Transport T>
    std::unique_ptr<detail::Operation> start_fold(Channel<T> channel, detail::DirectState& state, void* data,
                                                  std::size_t n, Fold fold) const {
        if (!state.region) return Ring{}.start_fold(channel, state.scratch, data, n, fold);
        fold.take_finish();
        return begin(state, data, shares_of(n, fold.element(), channel.size()), fold, detail::DirectPart::Allreduce);
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, detail::DirectState& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }

    /// Leaves block r of `blocks` reduced on rank r.
    template <Transport T>
    std::unique_ptr<detail::Operation> start_reduce_scatter(Channel<T> channel, detail::DirectState& state, void* data,
                                                            const detail::Layout& blocks, Fold fold) const {
        if (!state.region) return Ring{}.start_reduce_scatter(channel, state.scratch, data, blocks, fold);
        return begin(state, data, blocks, fold.then(nullptr), detail::DirectPart::ReduceScatter);
    }

    /// Brings block r of rank r to all ranks. Elements have `element` bytes.
    template <Transport T>
    std::unique_ptr<detail::Operation> start_allgather(Channel<T> channel, detail::DirectState& state, void* data,
                                                       const detail::Layout& blocks, std::size_t element) const {
        if (!state.region) return Ring{}.start_allgather(channel, state.scratch, data, blocks, element);
        return begin(state, data, blocks, Fold::none(element), detail::DirectPart::Allgather);
    }

private:
    /// Equal shares that begin on lines of their own, so that two ranks do not write to one.
    static detail::Layout shares_of(std::size_t n, std::size_t element, int ranks) {
        const auto p = static_cast<std::size_t>(ranks);
        const std::size_t line = 64 % element == 0 ? 64 / element : 1, lines = (n + line - 1) / line;
        std::vector<std::size_t> begin;
        for (std::size_t r = 0; r <= p; ++r) begin.push_back(std::min(detail::split_begin(lines, p, r) * line, n));
        return detail::Layout{std::move(begin)};
    }

    static std::unique_ptr<detail::Operation> begin(detail::DirectState& state, void* data, detail::Layout shares,
                                                    Fold fold, detail::DirectPart part) {
        return std::make_unique<detail::DirectRun>(
            state, detail::DirectJob{static_cast<std::byte*>(data), std::move(shares), fold, part});
    }
};

}  // namespace hvd
