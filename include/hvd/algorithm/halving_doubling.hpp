// HalvingDoubling: recursive halving (reduce-scatter), then recursive doubling (allgather). 2 log2 p messages and
// 2(p-1)/p n bytes per rank; when p is no power of two, some ranks hand all they have to a neighbour first (+2 messages).
// Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur et al., IJHPCA 2005.
#pragma once

#include <hvd/algorithm/algorithm.hpp>

namespace hvd {

/// `pieces` is a power of two: into how many chunks each of the blocks is cut when messages are to be pipelined.
struct HalvingDoublingSchedule {
    int rank, size;
    std::size_t pieces = 1;
    int levels = detail::floor_log2(size);
    int extra = size - (1 << levels);

    constexpr std::size_t chunks() const { return pieces << levels; }

    /// The even ones of the first 2 * extra ranks are folded into their odd neighbours and wait for the result.
    constexpr bool is_folded() const { return rank < 2 * extra && rank % 2 == 0; }
    constexpr bool has_folded() const { return rank < 2 * extra && rank % 2 == 1; }

    constexpr std::size_t steps() const {
        if (is_folded()) return 2;
        return 2 * halving_steps() + (has_folded() ? 2 : 0);
    }

    constexpr Step step(std::size_t i) const {
        const Chunks all{0, chunks()};
        if (is_folded()) return i == 0 ? Step{rank + 1, all, -1, {}, false} : Step{-1, {}, rank + 1, all, false};
        if (has_folded()) {
            if (i == 0) return {-1, {}, rank - 1, all, true};
            if (i == steps() - 1) return {rank - 1, all, -1, {}, false};
            --i;
        }
        const std::size_t n = halving_steps();
        return i < n ? halving(i) : doubling(i - n);
    }

private:
    /// Place among the ranks that remain; the inverse of `at`.
    constexpr int place() const { return rank < 2 * extra ? rank / 2 : rank - extra; }
    constexpr int at(int p) const { return p < extra ? 2 * p + 1 : p + extra; }

    /// Messages of the level whose two halves have `half` blocks each.
    constexpr std::size_t messages(int half) const { return pieces == 1 ? 1 : static_cast<std::size_t>(half) * pieces; }
    constexpr std::size_t halving_steps() const {
        std::size_t n = 0;
        for (int half = 1 << levels >> 1; half > 0; half >>= 1) n += messages(half);
        return n;
    }

    /// Chunks of the own or the partner's half at a level, or one piece of it.
    constexpr Chunks part(int half, bool own, std::size_t message) const {
        const int base = place() & ~(2 * half - 1);
        const bool upper = ((place() & half) != 0) == own;
        const auto first = static_cast<std::size_t>(base + (upper ? half : 0)) * pieces;
        const std::size_t count = static_cast<std::size_t>(half) * pieces / messages(half);
        return {first + message * count, count};
    }

    constexpr Step halving(std::size_t i) const {
        int half = 1 << levels >> 1;
        while (i >= messages(half)) {
            i -= messages(half);
            half >>= 1;
        }
        const int partner = at(place() ^ half);
        return {partner, part(half, false, i), partner, part(half, true, i), true};
    }

    constexpr Step doubling(std::size_t i) const {
        int half = 1;
        while (i >= messages(half)) {
            i -= messages(half);
            half <<= 1;
        }
        const int partner = at(place() ^ half);
        return {partner, part(half, true, i), partner, part(half, false, i), false};
    }
};

/// Allreduce by recursive halving and doubling: few messages and few bytes, for vectors of middle length.
struct HalvingDoubling {
    static constexpr std::string_view name = "halving_doubling";
    static constexpr bool is_tagged = true;

    /// Blocks longer than this many bytes go in pieces, one reduced while the next travels. 0: never.
    std::size_t segment_bytes = std::size_t{512} * 1024;
    std::vector<std::size_t> settings() const { return {segment_bytes}; }

    template <Transport T>
    detail::ScratchState prepare(T&) const {
        return {};
    }

    template <Transport T>
    std::unique_ptr<detail::Operation> start_fold(Channel<T> channel, detail::ScratchState& state, void* data,
                                                  std::size_t n, Fold fold) const {
        HalvingDoublingSchedule schedule{channel.rank(), channel.size()};
        const std::size_t block = (n * fold.element()) >> schedule.levels;
        if (segment_bytes > 0)
            while (schedule.pieces * segment_bytes < block) schedule.pieces *= 2;
        return detail::begin_schedule(channel, state, schedule, detail::Layout{n, schedule.chunks()}, data, fold);
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, detail::ScratchState& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }
};

}  // namespace hvd
