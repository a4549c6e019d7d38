// One operation of Direct: finds out whether all ranks' tensors can be reached, and which way to go.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <hvd/algorithm/direct_open.hpp>
#include <hvd/algorithm/direct_slots.hpp>
#include <hvd/algorithm/direct_whole.hpp>

namespace hvd::detail {

/// Tensors that all ranks can reach are worked on where they are; otherwise blocks of them go through shared slots.
class DirectRun final : public Operation {
public:
    DirectRun(DirectState& state, DirectJob job) : state_{state}, job_{std::move(job)} {}
    DirectRun(const DirectRun&) = delete;
    DirectRun& operator=(const DirectRun&) = delete;
    ~DirectRun() override {
        if (number_ > 0 && !is_over_) state_.withdraw(number_);
    }

    bool advance() override {
        if (job_.bytes() == 0 || state_.size == 1) return true;
        if (number_ == 0) {
            number_ = state_.announce(job_.data, job_.bytes());
            if (!state_.is_open(state_.rank, number_)) through_slots();  // whatever the others have
        }
        if (!way_ && !choose()) return false;
        return is_over_ = way_->advance();
    }

    int waiting_for() const override { return way_ ? way_->waiting_for() : from_; }

private:
    /// All ranks see all announcements, so they decide alike.
    bool choose() {
        if (!state_.all_reached(&DirectCounters::announced, number_, from_)) return false;
        std::vector<std::byte*> tensors;
        for (int r = 0; r < state_.size; ++r) {
            if (!state_.is_open(r, number_)) {
                through_slots();
                return true;
            }
            tensors.push_back(r == state_.rank ? job_.data : state_.address(state_.tensor(r, number_)));
        }
        way_ = std::make_unique<DirectOpen>(state_, job_, number_, std::move(tensors));
        return true;
    }

    void through_slots() {
        if (DirectWhole::suits(job_, state_.size)) way_ = std::make_unique<DirectWhole>(state_, job_);
        else way_ = std::make_unique<DirectSlots>(state_, job_);
    }

    DirectState& state_;
    DirectJob job_;
    std::uint64_t number_ = 0;  // 0: not begun
    bool is_over_ = false;
    int from_ = 0;
    std::unique_ptr<Operation> way_;
};

}  // namespace hvd::detail
