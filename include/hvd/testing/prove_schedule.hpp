// Proves a Schedule by playing all its ranks with sets of contributions instead of numbers. Usable in static_assert.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hvd/algorithm/schedule.hpp>

namespace hvd::testing {

/// What a schedule is meant to do.
enum class Goal { Allreduce, ReduceScatter, Allgather, Reduce, Broadcast };

namespace detail {

struct Sent {
    int from, to;
    Chunks chunks;
    std::vector<std::uint64_t> content;
};

/// Plays rank r up to its first step that needs a message nobody has sent yet. Returns whether anything happened; sets
/// `wrong` when a fold would count a rank twice, or a message differs from what is taken.
template <Schedule S>
constexpr bool play(const S& schedule, int r, std::size_t& at, bool& has_sent, std::vector<std::uint64_t>& own,
                    std::vector<Sent>& wire, bool& wrong) {
    bool moved = false;
    while (at < schedule.steps()) {
        const Step step = schedule.step(at);
        if (step.to >= 0 && !has_sent) {
            Sent sent{r, step.to, step.send, {}};
            for (std::size_t c = step.send.first; c < step.send.end(); ++c) sent.content.push_back(own[c]);
            wire.push_back(sent);
            has_sent = moved = true;
        }
        if (step.from >= 0) {
            std::size_t m = 0;
            while (m < wire.size() && (wire[m].from != step.from || wire[m].to != r)) ++m;
            if (m == wire.size()) return moved;
            if (wire[m].chunks != step.take) wrong = true;
            if (wrong) return moved;
            for (std::size_t k = 0; k < step.take.count; ++k) {
                std::uint64_t& mine = own[step.take.first + k];
                if (step.fold && (mine & wire[m].content[k]) != 0) wrong = true;
                mine = step.fold ? mine | wire[m].content[k] : wire[m].content[k];
            }
            wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(m));
        }
        ++at;
        has_sent = false;
        moved = true;
    }
    return moved;
}

}  // namespace detail

/// Whether the schedules `make(rank)` of `size` ranks reach the goal: every message is sent and taken with the same chunks,
/// nothing stays on the wire or waits for ever, no contribution is lost and none counted twice. For ReduceScatter and
/// Allgather chunk c belongs to rank c / (chunks / size); `root` is that of Reduce and Broadcast. At most 64 ranks.
template <class Make>
constexpr bool reaches(Goal goal, int size, Make make, int root = 0) {
    using S = decltype(make(0));
    std::vector<S> schedules;
    std::vector<std::vector<std::uint64_t>> own;
    std::vector<std::size_t> at(static_cast<std::size_t>(size), 0);
    std::vector<char> has_sent(static_cast<std::size_t>(size), 0);
    std::vector<detail::Sent> wire;
    for (int r = 0; r < size; ++r) {
        schedules.push_back(make(r));
        own.emplace_back(schedules.back().chunks(), std::uint64_t{1} << r);
    }
    const std::size_t chunks = schedules[0].chunks();
    bool moved = true, wrong = false;
    while (moved && !wrong) {
        moved = false;
        for (int r = 0; r < size; ++r) {
            const auto i = static_cast<std::size_t>(r);
            bool sent = has_sent[i] != 0;
            if (detail::play(schedules[i], r, at[i], sent, own[i], wire, wrong)) moved = true;
            has_sent[i] = sent ? 1 : 0;
        }
    }
    if (wrong || !wire.empty()) return false;
    const std::uint64_t all = size == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
    for (int r = 0; r < size; ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (at[i] != schedules[i].steps()) return false;
        for (std::size_t c = 0; c < chunks; ++c) {
            const std::size_t owner = chunks >= static_cast<std::size_t>(size) ? c / (chunks / static_cast<std::size_t>(size)) : 0;
            std::uint64_t want = all;
            if (goal == Goal::ReduceScatter && owner != i) continue;
            if (goal == Goal::Reduce && r != root) continue;
            if (goal == Goal::Allgather) want = std::uint64_t{1} << owner;
            if (goal == Goal::Broadcast) want = std::uint64_t{1} << root;
            if (own[i][c] != want) return false;
        }
    }
    return true;
}

}  // namespace hvd::testing
