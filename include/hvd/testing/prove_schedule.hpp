// Proves a Schedule by playing all its ranks with sets of contributions instead of numbers. Usable in static_assert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hvd/algorithm/schedule.hpp>

namespace hvd::testing {

/// What a schedule is meant to do.
enum class Goal { Allreduce, ReduceScatter, Allgather, Reduce, Broadcast };

namespace detail {

/// The messages from one rank to another, in order, with what they carry. Read from the front, never shortened: compile
/// time is counted in steps.
struct ProofLane {
    std::vector<Chunks> messages{};
    std::vector<std::uint64_t> content{};
    std::size_t messages_taken = 0, content_taken = 0;

    constexpr bool is_empty() const { return messages_taken == messages.size(); }
    constexpr void put(Chunks chunks, const std::uint64_t* own) {
        messages.push_back(chunks);
        for (std::size_t c = chunks.first; c < chunks.end(); ++c) content.push_back(own[c]);
    }
};

/// All ranks, each as far as it has come.
template <Schedule S>
struct Play {
    struct Rank {
        S schedule;
        std::size_t steps, at = 0;
        bool has_sent = false;
        std::vector<std::uint64_t> own;  // for each chunk a set of ranks
    };

    std::vector<Rank> ranks{};
    std::vector<ProofLane> lanes{};
    bool wrong = false;

    constexpr ProofLane& lane(int from, int to) {
        return lanes[static_cast<std::size_t>(from) * ranks.size() + static_cast<std::size_t>(to)];
    }

    /// Plays rank r up to its first step that needs a message nobody has sent yet. Returns whether anything happened; sets
    /// `wrong` when a fold would count a rank twice, or a message differs from what is taken.
    constexpr bool advance(int r) {
        Rank& rank = ranks[static_cast<std::size_t>(r)];
        bool moved = false;
        for (; rank.at < rank.steps; ++rank.at, rank.has_sent = false, moved = true) {
            const Step step = rank.schedule.step(rank.at);
            if (step.to >= 0 && !rank.has_sent) {
                lane(r, step.to).put(step.send, rank.own.data());
                rank.has_sent = moved = true;
            }
            if (step.from < 0) continue;
            ProofLane& incoming = lane(step.from, r);
            if (incoming.is_empty()) return moved;
            if (incoming.messages[incoming.messages_taken++] != step.take) wrong = true;
            if (wrong) return moved;
            const std::uint64_t* content = incoming.content.data() + incoming.content_taken;
            incoming.content_taken += step.take.count;
            std::uint64_t* own = rank.own.data() + step.take.first;
            for (std::size_t k = 0; k < step.take.count; ++k) {
                if (step.fold && (own[k] & content[k]) != 0) wrong = true;
                own[k] = step.fold ? own[k] | content[k] : content[k];
            }
        }
        return moved;
    }
};

}  // namespace detail

/// Whether the schedules `make(rank)` of `size` ranks reach the goal: every message is sent and taken with the same chunks,
/// nothing stays on the wire or waits for ever, no contribution is lost and none counted twice. For ReduceScatter and
/// Allgather chunk c belongs to rank c / (chunks / size); `root` is that of Reduce and Broadcast. At most 64 ranks.
template <class Make>
constexpr bool reaches(Goal goal, int size, Make make, int root = 0) {
    using S = decltype(make(0));
    detail::Play<S> play;
    for (int r = 0; r < size; ++r) {
        const S schedule = make(r);
        play.ranks.push_back({schedule, schedule.steps(), 0, false,
                              std::vector<std::uint64_t>(schedule.chunks(), std::uint64_t{1} << r)});
    }
    play.lanes.resize(play.ranks.size() * play.ranks.size());
    const std::size_t chunks = play.ranks[0].own.size();
    bool moved = true;
    while (moved && !play.wrong) {
        moved = false;
        for (int r = 0; r < size; ++r)
            if (play.advance(r)) moved = true;
    }
    if (play.wrong) return false;
    for (const detail::ProofLane& lane : play.lanes)
        if (!lane.is_empty()) return false;
    const std::uint64_t all = size == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
    for (int r = 0; r < size; ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (play.ranks[i].at != play.ranks[i].steps) return false;
        for (std::size_t c = 0; c < chunks; ++c) {
            const std::size_t owner =
                chunks >= static_cast<std::size_t>(size) ? c / (chunks / static_cast<std::size_t>(size)) : 0;
            std::uint64_t want = all;
            if (goal == Goal::ReduceScatter && owner != i) continue;
            if (goal == Goal::Reduce && r != root) continue;
            if (goal == Goal::Allgather) want = std::uint64_t{1} << owner;
            if (goal == Goal::Broadcast) want = std::uint64_t{1} << root;
            if (play.ranks[i].own[c] != want) return false;
        }
    }
    return true;
}

}  // namespace hvd::testing
