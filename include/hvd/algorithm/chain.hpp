// ChainSchedule: a long tensor goes from rank to rank in segments, to a root (reduced on the way) or from it. n bytes per
// rank, the least possible, after a start-up of p segments. Known as the pipelined or chain algorithm of broadcast.
#pragma once

#include <hvd/algorithm/schedule.hpp>

namespace hvd {

struct ChainSchedule {
    enum class Part { Reduce, Broadcast };

    int rank, size, root;
    std::size_t segments;
    Part part;

    constexpr std::size_t chunks() const { return segments; }
    constexpr std::size_t steps() const { return size == 1 ? 0 : 2 * segments; }

    /// Each segment is first taken, then passed on.
    constexpr Step step(std::size_t i) const {
        const Chunks segment{i / 2, 1};
        const int place = (rank - root + size) % size;
        const int inward = place == 0 ? -1 : (rank + size - 1) % size,
                  outward = place == size - 1 ? -1 : (rank + 1) % size;
        const bool reduces = part == Part::Reduce;
        if (i % 2 == 0) return {-1, {}, reduces ? outward : inward, segment, reduces};
        return {reduces ? inward : outward, segment, -1, {}, false};
    }
};

}  // namespace hvd
