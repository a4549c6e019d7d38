// Direct through shared slots: a rank copies in what others reduce, reduces its own share, and copies out what others have
// reduced.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <hvd/algorithm/direct_job.hpp>

namespace hvd::detail {

/// The stages of successive blocks overlap: block i is copied in, block i - 1 reduced, block i - 2 copied out. A slot has
/// room for a piece of every share, and for one reduced piece.
class DirectSlots final : public Operation {
public:
    DirectSlots(DirectState& state, const DirectJob& job) : state_{state}, job_{job}, base_{state.blocks} {
        std::size_t longest = 0;
        for (int r = 0; r < state.size; ++r) longest = std::max(longest, job.end_of(r) - job.begin_of(r));
        piece_ = piece_for(longest);
        blocks_ = (longest + piece_ - 1) / piece_;
        state_.blocks += blocks_;
        inputs_.reserve(static_cast<std::size_t>(state.size));
    }

    bool advance() override {
        for (std::size_t calls = 0; turn_ < blocks_ + 2; ++calls) {
            if (calls == per_call) return false;
            if (stage_ == 0) {
                if (turn_ < blocks_ && !copy_in(turn_)) return false;
                stage_ = 1;
            }
            if (stage_ == 1) {
                if (turn_ >= 1 && turn_ - 1 < blocks_ && !reduce(turn_ - 1)) return false;
                stage_ = 2;
            }
            if (turn_ >= 2 && !copy_out(turn_ - 2)) return false;
            stage_ = 0;
            ++turn_;
        }
        return true;
    }
    int waiting_for() const override { return from_; }

private:
    std::size_t piece_for(std::size_t longest) const {
        const std::size_t parts = static_cast<std::size_t>(state_.size) + 1;
        const std::size_t most = std::max<std::size_t>(state_.slot_bytes / parts / job_.element(), 1);
        return std::min(most < 64 ? most : most / 64 * 64, longest);
    }

    /// The piece of share r that belongs to block i, in elements.
    std::pair<std::size_t, std::size_t> piece(int r, std::size_t i) const {
        const std::size_t first = std::min(job_.begin_of(r) + i * piece_, job_.end_of(r));
        return {first, std::min(piece_, job_.end_of(r) - first)};
    }
    std::byte* room(int owner, std::size_t i, int share) const {
        return state_.slot(owner, base_ + i) + static_cast<std::size_t>(share) * piece_ * job_.element();
    }
    std::byte* result_room(int owner, std::size_t i) const { return room(owner, i, state_.size); }
    bool reached(DirectCounter counter, std::uint64_t value) { return state_.all_reached(counter, value, from_); }

    bool copy_in(std::size_t i) {
        const std::uint64_t block = base_ + i;
        if (block >= state_.slots) {  // of an earlier operation also the results, which may lie elsewhere in the slot
            const std::uint64_t old = block - state_.slots;
            if (!reached(old < base_ ? &DirectCounters::copied_out : &DirectCounters::reduced, old + 1)) return false;
        }
        const DirectPace pace{state_, block, job_.bytes()};
        for (int r = 0; job_.reduces() && r < state_.size; ++r) {
            const auto [first, n] = piece(r, i);
            if (r != state_.rank && n > 0)
                pace.put(room(state_.rank, i, r), job_.data + first * job_.element(), n * job_.element());
        }
        state_.set(&DirectCounters::copied_in, block + 1);
        return true;
    }

    bool reduce(std::size_t i) {
        const bool is_free =
            i < state_.slots || state_.all_reached(&DirectCounters::copied_out, base_ + i + 1 - state_.slots, freed_);
        if (!is_free || !reached(&DirectCounters::copied_in, base_ + i + 1)) return false;
        const auto [first, n] = piece(state_.rank, i);
        if (n > 0) {
            std::byte* own = job_.own_result(state_.rank, first);
            if (job_.reduces()) {
                inputs_.clear();
                for (int r = 0; r < state_.size; ++r)
                    inputs_.push_back(r == state_.rank ? job_.data + first * job_.element() : room(r, i, state_.rank));
                job_.fold.many(own, inputs_.data(), inputs_.size(), n);
                job_.fold.finish(own, n);
            }
            if (job_.part != DirectPart::ReduceScatter && job_.root != state_.rank)
                DirectPace{state_, base_ + i, job_.bytes()}.put(result_room(state_.rank, i), own, n * job_.element());
        }
        state_.set(&DirectCounters::reduced, base_ + i + 1);
        return true;
    }

    bool copy_out(std::size_t i) {
        if (job_.spreads_to(state_.rank)) {
            if (!reached(&DirectCounters::reduced, base_ + i + 1)) return false;
            for (int r = 0; r < state_.size; ++r) {
                const auto [first, n] = piece(r, i);
                if (r != state_.rank && n > 0)
                    std::memcpy(job_.data + first * job_.element(), result_room(r, i), n * job_.element());
            }
        }
        state_.set(&DirectCounters::copied_out, base_ + i + 1);
        return true;
    }

    static constexpr std::size_t per_call = 4;

    DirectState& state_;
    const DirectJob& job_;
    std::uint64_t base_;
    std::size_t piece_ = 0, blocks_ = 0, turn_ = 0;
    int stage_ = 0, from_ = 0, freed_ = 0;
    std::vector<const void*> inputs_;
};

}  // namespace hvd::detail
