// Ring: reduce-scatter and allgather around a ring. 2(p-1) messages and 2(p-1)/p n bytes per rank, the least possible.
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
#pragma once

#include <hvd/algorithm/algorithm.hpp>

namespace hvd {

/// One rank of a ring; block b of `size` ends reduced on rank b. Each block is cut into `segments` that follow each other.
struct RingSchedule {
    enum class Part { Allreduce, ReduceScatter, Allgather };

    int rank, size;
    std::size_t segments = 1;
    Part part = Part::Allreduce;

    constexpr std::size_t chunks() const { return static_cast<std::size_t>(size) * segments; }

    constexpr std::size_t steps() const {
        const auto turns = static_cast<std::size_t>(size - 1) * (part == Part::Allreduce ? 2 : 1);
        return turns * segments;
    }

    constexpr Step step(std::size_t i) const {
        int turn = static_cast<int>(i / segments);
        const std::size_t segment = i % segments;
        const bool reduces = part != Part::Allgather && turn < size - 1;
        if (part == Part::Allreduce && !reduces) turn -= size - 1;
        // In turn t of the reduce-scatter a rank passes on block rank-1-t; in the allgather, block rank-t.
        const int block = (rank - turn - (reduces ? 1 : 0) + 2 * size) % size;
        const int before = (block + size - 1) % size;
        return {(rank + 1) % size, chunk(block, segment), (rank + size - 1) % size, chunk(before, segment), reduces};
    }

private:
    constexpr Chunks chunk(int block, std::size_t segment) const {
        return {static_cast<std::size_t>(block) * segments + segment, 1};
    }
};

/// Allreduce around a ring: the right choice for large tensors between few nodes.
struct Ring {
    static constexpr std::string_view name = "ring";
    static constexpr bool is_tagged = true;

    /// Blocks longer than this many bytes go in segments, one reduced while the next travels. 0: never.
    std::size_t segment_bytes = std::size_t{512} * 1024;
    std::vector<std::size_t> settings() const { return {segment_bytes}; }

    template <Transport T>
    detail::ScratchState prepare(T&) const {
        return {};
    }

    template <Transport T>
    std::unique_ptr<detail::Operation> start_fold(Channel<T> channel, detail::ScratchState& state, void* data,
                                                  std::size_t n, Fold fold) const {
        const auto p = static_cast<std::size_t>(channel.size());
        const std::size_t segments = segments_of(n * fold.element() / p);
        return detail::begin_schedule(channel, state, RingSchedule{channel.rank(), channel.size(), segments},
                                      detail::Layout{n, p, segments}, data, fold);
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, detail::ScratchState& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }

    /// Leaves block r of `blocks` reduced on rank r; the rest of the data is overwritten with partial sums.
    template <Transport T>
    std::unique_ptr<detail::Operation> start_reduce_scatter(Channel<T> channel, detail::ScratchState& state, void* data,
                                                            const detail::Layout& blocks, Fold fold) const {
        return half(channel, state, data, blocks, fold, RingSchedule::Part::ReduceScatter);
    }

    /// Brings block r of rank r to all ranks. Elements have `element` bytes.
    template <Transport T>
    std::unique_ptr<detail::Operation> start_allgather(Channel<T> channel, detail::ScratchState& state, void* data,
                                                       const detail::Layout& blocks, std::size_t element) const {
        return half(channel, state, data, blocks, Fold::none(element), RingSchedule::Part::Allgather);
    }

private:
    std::size_t segments_of(std::size_t bytes) const {
        return segment_bytes == 0 || bytes <= segment_bytes ? 1 : (bytes + segment_bytes - 1) / segment_bytes;
    }

    template <Transport T>
    std::unique_ptr<detail::Operation> half(Channel<T> channel, detail::ScratchState& state, void* data,
                                            const detail::Layout& blocks, Fold fold, RingSchedule::Part part) const {
        const std::size_t segments = segments_of(blocks.most() * fold.element());
        return detail::begin_schedule(channel, state, RingSchedule{channel.rank(), channel.size(), segments, part},
                                      blocks.with_segments(segments), data, fold);
    }
};

}  // namespace hvd
