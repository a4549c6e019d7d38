// Direct on tensors that all ranks can reach: each rank reduces its share of all of them where they are, and writes the
// result to all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <hvd/algorithm/direct_job.hpp>

namespace hvd::detail {

class DirectOpen final : public Operation {
public:
    /// Operation `number`; `tensors` are those of all ranks.
    DirectOpen(DirectState& state, const DirectJob& job, std::uint64_t number, std::vector<std::byte*> tensors)
        : state_{state}, job_{job}, number_{number}, tensors_{std::move(tensors)}, next_{job.begin_of(state.rank)} {
        inputs_.reserve(tensors_.size());
    }

    /// One stretch of the own share per call.
    bool advance() override {
        const std::size_t end = job_.end_of(state_.rank);
        if (next_ < end) {
            const std::size_t stretch_end = std::min(next_ + stretch / job_.element() + 1, end);
            state_.touch(number_);
            while (next_ < stretch_end) work_on_block(std::min(stretch_end - next_, block / job_.element() + 1));
            state_.rest();
            if (next_ < end) return false;
        }
        if (!is_done_) {
            is_done_ = true;
            state_.set(&DirectCounters::done, number_);
        }
        return state_.all_reached(&DirectCounters::done, number_, from_);
    }
    int waiting_for() const override { return from_; }

private:
    /// A block that is reduced stays in the nearest cache until it is written to the others.
    void work_on_block(std::size_t n) {
        const std::size_t at = next_ * job_.element();
        std::byte* own = job_.part == DirectPart::Reduce ? tensors_[static_cast<std::size_t>(job_.root)] + at
                                                         : job_.own_result(state_.rank, next_);
        if (job_.reduces()) {
            inputs_.clear();
            for (std::byte* tensor : tensors_) inputs_.push_back(tensor + at);
            job_.fold.many(own, inputs_.data(), inputs_.size(), n);
            job_.fold.finish(own, n);
        }
        if (job_.part == DirectPart::Allreduce || job_.part == DirectPart::Allgather) {
            for (std::byte* tensor : tensors_)
                if (tensor + at != own) std::memcpy(tensor + at, own, n * job_.element());
        }
        next_ += n;
    }

    static constexpr std::size_t block = std::size_t{16} * 1024, stretch = std::size_t{256} * 1024;

    DirectState& state_;
    const DirectJob& job_;
    std::uint64_t number_;
    std::vector<std::byte*> tensors_;
    std::vector<const void*> inputs_;
    std::size_t next_;
    bool is_done_ = false;
    int from_ = 0;
};

}  // namespace hvd::detail
