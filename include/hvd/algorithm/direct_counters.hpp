// What each rank of a node says to the others in Direct: where its tensor is, and how far it has come.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace hvd::detail {

/// Where a rank's tensor is, for its peers: an address, or a place in a region that they have, too, or nowhere.
struct DirectTensor {
    std::uint64_t region = 0;
    std::uint64_t place = 0;
    std::uint64_t is_open = 0;
    std::uint64_t most = 0;  // bytes that another rank takes of it, where that differs between ranks
};

/// One rank's page of counters, each on a line of its own. They only grow, and mean the same on all ranks, since all do
/// the same operations in the same order.
struct DirectCounters {
    template <class X>
    struct alignas(128) Line {
        X value{};
        std::atomic<std::uint64_t> note{};  // see DirectPace
    };
    Line<std::atomic<std::uint64_t>> announced;   // operations whose tensor is announced
    Line<std::array<DirectTensor, 2>> tensors;    // of the odd and even operations
    Line<std::atomic<std::uint64_t>> done;        // operations whose tensors this rank no longer touches
    Line<std::atomic<std::uint64_t>> busy;        // the operation in which this rank touches others' tensors now, or 0
    Line<std::atomic<std::uint64_t>> withdrawn;   // the last operation whose tensor was taken away early
    Line<std::atomic<std::uint64_t>> copied_in;   // blocks
    Line<std::atomic<std::uint64_t>> reduced;     // blocks
    Line<std::atomic<std::uint64_t>> copied_out;  // blocks
};

using DirectCounter = DirectCounters::Line<std::atomic<std::uint64_t>> DirectCounters::*;

}  // namespace hvd::detail
