// RecursiveDoublingSchedule: all ranks exchange all they have with partners at distance 1, 2, 4 ...: ceil(log2 p) messages
// of n bytes (+2 when p is no power of two), the fewest possible; for messages so short that only their number counts.
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#pragma once

#include <hvd/algorithm/schedule.hpp>

namespace hvd {

/// The whole message is one chunk. Ranks beyond a power of two are folded into a neighbour first and told at the end.
struct RecursiveDoublingSchedule {
    int rank, size;
    int levels = detail::floor_log2(size);
    int extra = size - (1 << levels);

    constexpr std::size_t chunks() const { return 1; }
    constexpr bool is_folded() const { return rank < 2 * extra && rank % 2 == 0; }
    constexpr bool has_folded() const { return rank < 2 * extra && rank % 2 == 1; }
    constexpr std::size_t steps() const {
        return is_folded() ? 2 : static_cast<std::size_t>(levels) + (has_folded() ? 2 : 0);
    }

    constexpr Step step(std::size_t i) const {
        const Chunks all{0, 1};
        if (is_folded()) return i == 0 ? Step{rank + 1, all, -1, {}, false} : Step{-1, {}, rank + 1, all, false};
        if (has_folded()) {
            if (i == 0) return {-1, {}, rank - 1, all, true};
            if (i == steps() - 1) return {rank - 1, all, -1, {}, false};
            --i;
        }
        const int place = (rank < 2 * extra ? rank / 2 : rank - extra) ^ (1 << i);
        const int partner = place < extra ? 2 * place + 1 : place + extra;
        return {partner, all, partner, all, true};
    }
};

}  // namespace hvd
