// Pieces of tensors taken straight from other ranks' memory: what the collectives that do not reduce consist of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <hvd/algorithm/direct_exchange.hpp>
#include <hvd/algorithm/direct_pace.hpp>
#include <hvd/algorithm/direct_state.hpp>

namespace hvd::detail {

/// Tensors that all ranks can reach are read where they are; others go through the slots, block by block.
class DirectCopy final : public Operation {
public:
    DirectCopy(DirectState& state, DirectExchange exchange)
        : state_{state}, x_{std::move(exchange)}, room_{std::min(state.slot_bytes / x_.given.size(), block_bytes)} {
        if (room_ > 64) room_ = room_ / 64 * 64;
    }
    DirectCopy(const DirectCopy&) = delete;
    ~DirectCopy() override {
        if (number_ > 0 && !is_over_) state_.withdraw(number_);
    }

    bool advance() override {
        if (state_.size == 1) return true;
        if (number_ == 0) announce();
        if (!is_planned_ && !plan()) return false;
        return is_over_ = is_open_ ? advance_open() : advance_slots();
    }
    int waiting_for() const override { return from_; }

private:
    const DirectPiece& given_to(int r) const {
        return x_.given[x_.given.size() == 1 ? 0 : static_cast<std::size_t>(r)];
    }
    const DirectPiece& taken_from(int r) const { return x_.taken[static_cast<std::size_t>(r)]; }
    std::uint64_t most(int r) const { return state_.tensor(r, number_).most; }

    void announce() {
        std::size_t end = 0, most = 0;
        for (int r = 0; r < state_.size; ++r) {
            if (r == state_.rank) continue;
            most = std::max(most, given_to(r).bytes);
            end = std::max(end, given_to(r).from + given_to(r).bytes);
        }
        number_ = state_.announce(x_.data, end, most);
    }

    bool plan() {
        if (!state_.all_reached(&DirectCounters::announced, number_, from_)) return false;
        is_planned_ = true;
        for (int r = 0; r < state_.size; ++r) {
            longest_ = std::max<std::size_t>(longest_, most(r));
            is_open_ = is_open_ && (most(r) == 0 || state_.is_open(r, number_));
        }
        gives_ = most(state_.rank) > 0;
        if (is_open_) return true;
        blocks_ = (longest_ + room_ - 1) / room_;
        base_ = state_.blocks;
        state_.blocks += blocks_;
        return true;
    }

    /// One stretch per call, of one rank after the other, from the next one on.
    bool advance_open() {
        for (; distance_ < state_.size; ++distance_, at_ = 0) {
            const int r = (state_.rank + distance_) % state_.size;
            const DirectPiece& piece = taken_from(r);
            if (at_ == piece.bytes) continue;
            const std::size_t n = std::min(stretch, piece.bytes - at_);
            state_.touch(number_);
            std::memcpy(piece.to + at_, state_.address(state_.tensor(r, number_)) + piece.from + at_, n);
            state_.rest();
            at_ += n;
            return false;
        }
        if (!is_done_) {
            is_done_ = true;
            state_.set(&DirectCounters::done, number_);
        }
        return !gives_ || state_.all_reached(&DirectCounters::done, number_, from_);
    }

    bool advance_slots() {
        for (std::size_t calls = 0; copied_out_ < blocks_; ++calls) {
            if (calls == per_call) return false;
            if (copied_in_ < blocks_ && copied_in_ <= copied_out_ + 1 && !copy_in() && copied_in_ == copied_out_)
                return false;
            if (!copy_out()) return false;
        }
        return true;
    }

    std::byte* room(int owner, std::uint64_t block, int taker) const {
        return state_.slot(owner, block) + (x_.given.size() == 1 ? 0 : static_cast<std::size_t>(taker) * room_);
    }
    /// The bytes of a piece that belong to a block.
    std::size_t part(const DirectPiece& piece, std::size_t block) const {
        const std::size_t at = block * room_;
        return at < piece.bytes ? std::min(room_, piece.bytes - at) : 0;
    }

    bool copy_in() {
        const std::uint64_t block = base_ + copied_in_;
        if (block >= state_.slots && !state_.all_reached(&DirectCounters::copied_out, block - state_.slots + 1, freed_))
            return false;
        const DirectPace pace{state_, block, std::min(longest_, room_)};
        for (int r = 0; gives_ && r < state_.size; ++r) {
            if (r == state_.rank) continue;
            const DirectPiece& piece = given_to(r);
            const std::size_t n = part(piece, copied_in_);
            if (n > 0) pace.put(room(state_.rank, block, r), x_.data + piece.from + copied_in_ * room_, n);
            if (x_.given.size() == 1) break;
        }
        ++copied_in_;
        state_.set(&DirectCounters::copied_in, block + 1);
        return true;
    }

    bool copy_out() {
        const std::uint64_t block = base_ + copied_out_;
        for (; distance_ < state_.size; ++distance_) {
            const int r = (state_.rank + distance_) % state_.size;
            const std::size_t n = part(taken_from(r), copied_out_);
            if (n == 0) continue;
            from_ = r;
            if (state_.counters(r).copied_in.value.load(std::memory_order_acquire) < block + 1) return false;
            std::byte* to = taken_from(r).to + copied_out_ * room_;
            DirectPace::measure(state_, block, n, [&] { std::memcpy(to, room(r, block, state_.rank), n); });
        }
        from_ = 0;
        distance_ = 1;
        ++copied_out_;
        state_.set(&DirectCounters::copied_out, block + 1);
        return true;
    }

    static constexpr std::size_t stretch = 256 << 10, block_bytes = 64 << 10, per_call = 16;

    DirectState& state_;
    DirectExchange x_;
    std::size_t room_, longest_ = 0, blocks_ = 0, base_ = 0, copied_in_ = 0, copied_out_ = 0, at_ = 0, number_ = 0;
    int distance_ = 1, from_ = 0, freed_ = 0;
    bool is_planned_ = false, is_open_ = true, gives_ = false, is_done_ = false, is_over_ = false;
};

}  // namespace hvd::detail
