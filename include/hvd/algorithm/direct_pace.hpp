// How blocks are put where other ranks read them. Stores past the caches are a little slower where cores pass lines to each
// other quickly, and several times as fast where they do not (as on some virtual machines, at times), so the ranks
// that read measure, and the ranks that write go by that.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hvd/algorithm/direct_state.hpp>
#include <hvd/core/kernels.hpp>

namespace hvd::detail {

/// Copies that other cores read from memory rather than from this one's cache.
inline void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    const auto* input = reinterpret_cast<const unsigned char*>(from);
    reduce_many_streaming(reinterpret_cast<unsigned char*>(to), &input, 1, bytes, sum);
}

/// The writer's side and the reader's side of a block. Short tensors go through the caches; longer ones, too, unless the
/// readers find that slow, and then now and again to see whether it still is.
class DirectPace {
public:
    /// Begins to write block `number` of a tensor of `bytes`.
    DirectPace(DirectState& state, std::uint64_t number, std::size_t bytes)
        : past_caches_{goes_past(state, number, bytes)} {
        auto& note = state.counters(state.rank).copied_in.note;
        const std::uint64_t bit = std::uint64_t{1} << number % 64, before = note.load(std::memory_order_relaxed);
        const std::uint64_t after = past_caches_ ? before | bit : before & ~bit;
        if (after != before) note.store(after, std::memory_order_relaxed);
    }
    void put(std::byte* to, const std::byte* from, std::size_t bytes) const {
        if (past_caches_) copy_past_caches(to, from, bytes);
        else std::memcpy(to, from, bytes);
    }

    /// Runs `read()`, which reads `bytes` of the others' block `number`, and takes the time where that says something.
    template <class Read>
    static void measure(DirectState& state, std::uint64_t number, std::size_t bytes, Read&& read) {
        bool says_something = bytes >= measured_from;
        for (int r = 0; says_something && r < state.size; ++r)
            if (r != state.rank)
                says_something =
                    (state.counters(r).copied_in.note.load(std::memory_order_relaxed) >> number % 64 & 1) == 0;
        if (!says_something) return read();
        const auto began = Clock::now();
        read();
        const std::chrono::duration<double> took = Clock::now() - began;
        const bool is_slow = took.count() * crawl > static_cast<double>(bytes);
        if (is_slow && state.slow_blocks < 4) ++state.slow_blocks;
        if (!is_slow && state.slow_blocks > 0) --state.slow_blocks;
        auto& note = state.counters(state.rank).copied_out.note;
        const std::uint64_t crawls = state.slow_blocks >= 2 ? 1 : 0;
        if (note.load(std::memory_order_relaxed) != crawls) note.store(crawls, std::memory_order_relaxed);
    }

private:
    static constexpr std::size_t measured_from = std::size_t{16} << 10;
    static constexpr double crawl = 3e9;  // bytes per second
    static constexpr std::uint64_t probe_every = 32;

    static bool goes_past(const DirectState& state, std::uint64_t number, std::size_t bytes) {
        return bytes >= measured_from && number % probe_every != 0 && others_crawl(state);
    }

    static bool others_crawl(const DirectState& state) {
        for (int r = 0; r < state.size; ++r)
            if (r != state.rank && state.counters(r).copied_out.note.load(std::memory_order_relaxed) != 0) return true;
        return false;
    }

    bool past_caches_;
};

}  // namespace hvd::detail
