// What the ranks of a node take of each other's tensors, in the collectives that do not reduce.
#pragma once

#include <cstddef>
#include <vector>

namespace hvd::detail {

/// What one rank takes: `bytes` at `from` in the tensor of another.
struct DirectPiece {
    std::size_t from = 0, bytes = 0;
    std::byte* to = nullptr;  // on the rank that takes it
};

/// What the ranks take of each other. `given` has a piece for each rank that takes, or a single one that all of them take;
/// all ranks do alike. `taken` has one for each rank that gives. Own pieces are left out.
struct DirectExchange {
    const std::byte* data;  // the tensor of this rank
    std::vector<DirectPiece> given, taken;
};

}  // namespace hvd::detail
