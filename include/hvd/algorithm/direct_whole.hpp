// Direct through shared slots in one phase, the fastest for two ranks and for short tensors: each rank puts its tensor
// into slots, block by block, and reduces all ranks' blocks itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <hvd/algorithm/direct_job.hpp>

namespace hvd::detail {

class DirectWhole final : public Operation {
public:
    static bool suits(const DirectJob& job, int size) {
        return job.part == DirectPart::Allreduce && (size == 2 || job.bytes() <= most_for_many);
    }

    DirectWhole(DirectState& state, const DirectJob& job) : state_{state}, job_{job}, base_{state.blocks} {
        const std::size_t bytes = std::min(state.slot_bytes, job.bytes() < long_from ? short_block : long_block);
        block_ = std::max<std::size_t>(bytes / job.element() / 16 * 16, 1);
        blocks_ = (job.shares.elements() + block_ - 1) / block_;
        state_.blocks += blocks_;
        inputs_.reserve(static_cast<std::size_t>(state.size));
    }

    /// Block i + 1 is put in before block i is reduced, so that nobody waits for copies.
    bool advance() override {
        for (std::size_t i = 0; i < per_call; ++i) {
            if (copied_ < blocks_ && copied_ < reduced_ + 2 && !copy_in() && copied_ == reduced_) return false;
            if (!reduce()) return false;
            if (reduced_ == blocks_) return true;
        }
        return false;
    }
    int waiting_for() const override { return from_; }

private:
    std::size_t length(std::size_t i) const { return std::min(block_, job_.shares.elements() - i * block_); }

    bool copy_in() {
        const std::uint64_t number = base_ + copied_;
        if (number >= state_.slots &&
            !state_.all_reached(&DirectCounters::copied_out, number - state_.slots + 1, freed_))
            return false;
        const std::size_t bytes = length(copied_) * job_.element();
        const DirectPace pace{state_, number, job_.bytes()};
        pace.put(state_.slot(state_.rank, number), job_.data + copied_ * block_ * job_.element(), bytes);
        ++copied_;
        state_.set(&DirectCounters::copied_in, number + 1);
        return true;
    }

    bool reduce() {
        const std::uint64_t number = base_ + reduced_;
        if (!state_.all_reached(&DirectCounters::copied_in, number + 1, from_)) return false;
        std::byte* own = job_.data + reduced_ * block_ * job_.element();
        inputs_.clear();
        for (int r = 0; r < state_.size; ++r) inputs_.push_back(r == state_.rank ? own : state_.slot(r, number));
        const std::size_t n = length(reduced_), others = static_cast<std::size_t>(state_.size - 1);
        DirectPace::measure(state_, number, n * job_.element() * others,
                            [&] { job_.fold.many(own, inputs_.data(), inputs_.size(), n); });
        job_.fold.finish(own, n);
        ++reduced_;
        state_.set(&DirectCounters::copied_out, number + 1);
        return true;
    }

    static constexpr std::size_t most_for_many = std::size_t{64} << 10, long_from = std::size_t{512} << 10,
                                 short_block = std::size_t{64} << 10, long_block = std::size_t{256} << 10, per_call = 8;

    DirectState& state_;
    const DirectJob& job_;
    std::size_t block_ = 0, blocks_ = 0, copied_ = 0, reduced_ = 0;
    std::uint64_t base_;
    int from_ = 0, freed_ = 0;  // how far the looks at the others have got
    std::vector<const void*> inputs_;
};

}  // namespace hvd::detail
