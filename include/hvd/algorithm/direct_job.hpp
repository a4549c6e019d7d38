// What the ways of Direct work on: a tensor per rank, cut into shares.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <hvd/algorithm/direct_pace.hpp>
#include <hvd/algorithm/direct_state.hpp>
#include <hvd/algorithm/layout.hpp>
#include <hvd/core/fold.hpp>

namespace hvd::detail {

/// What is to be done: a reduce-scatter, an allgather, or both, which is an allreduce; or a reduce-scatter whose shares all
/// go to one rank.
enum class DirectPart { Allreduce, ReduceScatter, Allgather, Reduce };

struct DirectJob {
    std::byte* data;  // the tensor of this rank
    Layout shares;    // share r, from element shares.begin(r) to shares.begin(r + 1), is reduced by rank r
    Fold fold;
    DirectPart part;
    int root = -1;                // of Reduce
    std::byte* result = nullptr;  // where the own share of a ReduceScatter goes; null: in place

    std::size_t begin_of(int r) const { return shares.begin(static_cast<std::size_t>(r)); }
    std::size_t end_of(int r) const { return shares.begin(static_cast<std::size_t>(r) + 1); }
    std::size_t element() const { return fold.element(); }
    std::size_t bytes() const { return shares.elements() * fold.element(); }
    bool reduces() const { return part != DirectPart::Allgather; }
    /// Rank r gets what others have reduced.
    bool spreads_to(int r) const { return part == DirectPart::Reduce ? r == root : part != DirectPart::ReduceScatter; }
    /// Where element `first` of the own share goes.
    std::byte* own_result(int rank, std::size_t first) const {
        return result != nullptr ? result + (first - begin_of(rank)) * element() : data + first * element();
    }
};

}  // namespace hvd::detail
