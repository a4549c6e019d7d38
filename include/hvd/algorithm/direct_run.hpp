// How Direct works: each rank reduces its share of all ranks' tensors and spreads the result, block by block.
#pragma once

#include <cstddef>
#include <cstring>
#include <algorithm>
#include <memory>
#include <vector>

#include <hvd/algorithm/direct_state.hpp>
#include <hvd/algorithm/layout.hpp>
#include <hvd/core/fold.hpp>

namespace hvd::detail {

/// What is to be done: a reduce-scatter, an allgather, or both, which is an allreduce.
enum class DirectPart { Allreduce, ReduceScatter, Allgather };

/// Tensors that all ranks can reach are worked on where they are. Otherwise blocks of them go through shared slots: a
/// rank copies in what others reduce, reduces its own share, and copies out what others have reduced, with the three
/// stages of successive blocks overlapping. Nobody waits for a slow rank longer than the slots last.
class DirectRun final : public Operation {
public:
    /// Share r of the elements, from `shares.begin(r)` to `shares.begin(r + 1)`, is reduced by rank r.
    DirectRun(DirectState& state, void* data, Layout shares, Fold fold, DirectPart part)
        : state_{state}, data_{static_cast<std::byte*>(data)}, shares_{std::move(shares)}, fold_{fold}, part_{part} {}

    DirectRun(const DirectRun&) = delete;
    DirectRun& operator=(const DirectRun&) = delete;
    ~DirectRun() override {
        if (begun_ && !is_over_) state_.withdraw(number_ + 1);
    }

    bool advance() override {
        const std::size_t bytes = shares_.elements() * fold_.element();
        if (bytes == 0 || state_.size == 1) return true;
        if (!begun_) announce(bytes);
        if (!plan_made_ && !make_plan()) return false;
        return is_over_ = is_open_ ? advance_open() : advance_slots();
    }

    int waiting_for() const override { return from_; }

private:
    using Counter = DirectCounters::Line<std::atomic<std::uint64_t>> DirectCounters::*;

    std::size_t begin_of(int r) const { return shares_.begin(static_cast<std::size_t>(r)); }
    std::size_t end_of(int r) const { return shares_.begin(static_cast<std::size_t>(r) + 1); }
    void set(Counter counter, std::uint64_t value) {
        (state_.counters(state_.rank).*counter).value.store(value, std::memory_order_release);
    }
    bool reached(Counter counter, std::uint64_t value) { return state_.all_reached(counter, value, from_); }

    void announce(std::size_t bytes) {
        begun_ = true;
        number_ = state_.operations++;
        state_.counters(state_.rank).tensors.value[number_ % 2] = state_.describe(data_, bytes);
        set(&DirectCounters::announced, number_ + 1);
    }

    /// All ranks see all announcements, so they decide alike.
    bool make_plan() {
        if (!reached(&DirectCounters::announced, number_ + 1)) return false;
        plan_made_ = true;
        is_open_ = true;
        tensors_.resize(static_cast<std::size_t>(state_.size));
        for (int r = 0; r < state_.size; ++r) {
            const DirectTensor& tensor = state_.counters(r).tensors.value[number_ % 2];
            is_open_ = is_open_ && tensor.is_open != 0;
            if (is_open_) tensors_[static_cast<std::size_t>(r)] = state_.address(tensor);
        }
        if (is_open_) {
            tensors_[static_cast<std::size_t>(state_.rank)] = data_;
            next_ = begin_of(state_.rank);
            return true;
        }
        std::size_t longest = 0;
        for (int r = 0; r < state_.size; ++r) longest = std::max(longest, end_of(r) - begin_of(r));
        piece_ = piece_for(longest);
        blocks_ = (longest + piece_ - 1) / piece_;
        base_ = state_.blocks;
        state_.blocks += blocks_;
        return true;
    }

    /// Elements of a share in one block. A slot has room for a piece of every share, and for one reduced piece. Short
    /// tensors go in one block; long ones in blocks that stay in the cache and overlap.
    std::size_t piece_for(std::size_t longest) const {
        const std::size_t parts = static_cast<std::size_t>(state_.size) + 1;
        const std::size_t most = state_.slot_bytes / parts / fold_.element();
        if (longest <= most && longest * fold_.element() * parts <= 3 * block_bytes) return longest;
        const std::size_t piece = std::min(most, block_bytes / parts / fold_.element());
        return piece < 64 ? std::max<std::size_t>(piece, 1) : piece / 64 * 64;
    }

    /// Reduces or spreads one block of the own share per call.
    bool advance_open() {
        const std::size_t end = end_of(state_.rank), element = fold_.element();
        if (next_ < end) {
            const std::size_t n = std::min(open_block / element + 1, end - next_), at = next_ * element;
            std::byte* own = data_ + at;
            state_.touch(number_ + 1);
            if (part_ != DirectPart::Allgather) {
                inputs_.clear();
                for (std::byte* tensor : tensors_) inputs_.push_back(tensor + at);
                fold_.many(own, inputs_.data(), inputs_.size(), n);
            }
            if (part_ != DirectPart::ReduceScatter) {
                for (std::byte* tensor : tensors_)
                    if (tensor != data_) std::memcpy(tensor + at, own, n * element);
            }
            state_.rest();
            next_ += n;
            if (next_ < end) return false;
        }
        if (!is_done_) {
            is_done_ = true;
            set(&DirectCounters::done, number_ + 1);
        }
        return reached(&DirectCounters::done, number_ + 1);
    }

    /// The stages of the blocks in turn: copy block i in, reduce block i - 1, copy block i - 2 out.
    bool advance_slots() {
        while (turn_ < blocks_ + 2) {
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

    /// The piece of share r that belongs to block i, in elements.
    std::pair<std::size_t, std::size_t> piece(int r, std::size_t i) const {
        const std::size_t first = std::min(begin_of(r) + i * piece_, end_of(r));
        return {first, std::min(piece_, end_of(r) - first)};
    }
    std::byte* room(int owner, std::size_t i, int share) const {
        return state_.slot(owner, base_ + i) + static_cast<std::size_t>(share) * piece_ * fold_.element();
    }
    std::byte* result_room(int owner, std::size_t i) const { return room(owner, i, state_.size); }

    bool copy_in(std::size_t i) {
        const std::uint64_t block = base_ + i;
        if (block >= state_.slots && !reached(&DirectCounters::reduced, block - state_.slots + 1)) return false;
        if (part_ != DirectPart::Allgather) {
            for (int r = 0; r < state_.size; ++r) {
                const auto [first, n] = piece(r, i);
                if (r != state_.rank && n > 0) std::memcpy(room(state_.rank, i, r), data_ + first * fold_.element(), n * fold_.element());
            }
        }
        set(&DirectCounters::copied_in, block + 1);
        return true;
    }

    bool reduce(std::size_t i) {
        const std::uint64_t block = base_ + i;
        if (!waited_for_slot_) {
            if (block >= state_.slots && !reached(&DirectCounters::copied_out, block - state_.slots + 1)) return false;
            waited_for_slot_ = true;
        }
        if (!reached(&DirectCounters::copied_in, block + 1)) return false;
        waited_for_slot_ = false;
        const auto [first, n] = piece(state_.rank, i);
        std::byte* own = data_ + first * fold_.element();
        if (n > 0) {
            if (part_ != DirectPart::Allgather) {
                inputs_.clear();
                for (int r = 0; r < state_.size; ++r) inputs_.push_back(r == state_.rank ? own : room(r, i, state_.rank));
                fold_.many(own, inputs_.data(), inputs_.size(), n);
            }
            if (part_ != DirectPart::ReduceScatter) std::memcpy(result_room(state_.rank, i), own, n * fold_.element());
        }
        set(&DirectCounters::reduced, block + 1);
        return true;
    }

    bool copy_out(std::size_t i) {
        const std::uint64_t block = base_ + i;
        if (!reached(&DirectCounters::reduced, block + 1)) return false;
        if (part_ != DirectPart::ReduceScatter) {
            for (int r = 0; r < state_.size; ++r) {
                const auto [first, n] = piece(r, i);
                if (r != state_.rank && n > 0) std::memcpy(data_ + first * fold_.element(), result_room(r, i), n * fold_.element());
            }
        }
        set(&DirectCounters::copied_out, block + 1);
        return true;
    }

    static constexpr std::size_t open_block = std::size_t{128} * 1024, block_bytes = std::size_t{256} * 1024;

    DirectState& state_;
    std::byte* data_;
    Layout shares_;
    Fold fold_;
    DirectPart part_;
    bool begun_ = false, plan_made_ = false, is_open_ = false, is_done_ = false, is_over_ = false, waited_for_slot_ = false;
    std::uint64_t number_ = 0, base_ = 0;
    std::size_t next_ = 0, piece_ = 0, blocks_ = 0, turn_ = 0;
    int stage_ = 0, from_ = 0;
    std::vector<std::byte*> tensors_;
    std::vector<const void*> inputs_;
};

}  // namespace hvd::detail
