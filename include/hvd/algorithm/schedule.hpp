// Schedules: what one rank does in a collective, as numbers only. An executor (schedule_run.hpp) moves the bytes.
#pragma once

#include <concepts>
#include <cstddef>

namespace hvd {

/// A run of neighbouring chunks.
struct Chunks {
    std::size_t first = 0, count = 0;
    constexpr std::size_t end() const { return first + count; }
    constexpr bool operator==(const Chunks&) const = default;
};

/// One step of one rank: begin to send some chunks to a peer, and take some from a peer, which are folded into (reduced
/// with) the own ones or replace them. A peer of -1 means none. A rank does its steps in order.
struct Step {
    int to = -1;
    Chunks send{};
    int from = -1;
    Chunks take{};
    bool fold = false;
};

/// The schedule of one rank: `steps()`, `step(i)`, and into how many equal `chunks()` the data are cut. Sends and takes
/// match in pairs over the ranks, in order.
template <class S>
concept Schedule = requires(const S& s, std::size_t i) {
    { s.chunks() } -> std::convertible_to<std::size_t>;
    { s.steps() } -> std::convertible_to<std::size_t>;
    { s.step(i) } -> std::same_as<Step>;
};

namespace detail {

constexpr bool overlap(Chunks a, Chunks b) { return a.first < b.end() && b.first < a.end(); }

constexpr int ceil_log2(int p) {
    int log = 0;
    while ((1 << log) < p) ++log;
    return log;
}

constexpr int floor_log2(int p) {
    int log = 0;
    while ((2 << log) <= p) ++log;
    return log;
}

/// Where piece `i` begins when `n` are cut into `parts` whose sizes differ by at most one, the longer ones first.
constexpr std::size_t split_begin(std::size_t n, std::size_t parts, std::size_t i) {
    const std::size_t extra = n % parts;
    return i * (n / parts) + (i < extra ? i : extra);
}

}  // namespace detail
}  // namespace hvd
