// Carries out a Schedule on the bytes of one tensor, in place, without ever blocking.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include <hvd/algorithm/layout.hpp>
#include <hvd/algorithm/outbox.hpp>
#include <hvd/algorithm/schedule.hpp>
#include <hvd/algorithm/scratch.hpp>
#include <hvd/core/fold.hpp>
#include <hvd/transport/channel.hpp>

namespace hvd::detail {

/// Steps are done in order. Receives are posted some steps ahead, so that data come in while earlier ones are reduced;
/// what is to be folded lands in scratch, the rest in place as soon as no earlier step needs what is there.
template <Transport T, Schedule S>
class ScheduleRun final : public Operation {
public:
    ScheduleRun(Channel<T> channel, S schedule, Layout layout, void* data, Fold fold,
                const std::shared_ptr<BlockPool>& pool)
        : channel_{channel},
          schedule_{std::move(schedule)},
          layout_{std::move(layout)},
          data_{static_cast<std::byte*>(data)},
          fold_{fold},
          steps_{schedule_.steps()} {
        std::size_t i = 0;
        while (i < steps_ && !folds(schedule_.step(i))) ++i;
        if (i < steps_) {  // no later step folds more chunks than the first that does
            slot_bytes_ = (schedule_.step(i).take.count * layout_.most() * fold_.element() + 63) / 64 * 64;
            scratch_ = Loan{pool, slot_bytes_ * ahead};
        }
        if (steps_ > 0) step_ = schedule_.step(0);
    }

    /// True when all steps are done and all messages delivered.
    bool advance() override {
        while (current_ < steps_) {
            post_ahead();
            if (!sent_) {
                if (!begin_send()) return false;
                sent_ = true;
            }
            if (step_.from >= 0 && bytes_of(step_.take) > 0 && !finish_take()) return false;
            if (++current_ < steps_) step_ = schedule_.step(current_);
            sent_ = false;
        }
        return outbox_.retire(channel_, 0);
    }

    /// The rank whose message is waited for, or -1.
    int waiting_for() const override { return current_ < steps_ ? step_.from : -1; }

private:
    using Message = typename T::Message;
    static constexpr std::size_t ahead = 2;

    struct Slot {
        Message message;
        bool posted = false;
    };

    static bool folds(const Step& step) { return step.from >= 0 && step.fold; }
    std::byte* at(std::size_t chunk) const { return data_ + layout_.begin(chunk) * fold_.element(); }
    std::size_t bytes_of(Chunks c) const { return (layout_.begin(c.end()) - layout_.begin(c.first)) * fold_.element(); }

    void post_ahead() {
        if (posted_ < current_) posted_ = current_;
        while (posted_ < steps_ && posted_ < current_ + ahead) {
            const Step step = posted_ == current_ ? step_ : schedule_.step(posted_);
            const std::size_t bytes = step.from < 0 ? 0 : bytes_of(step.take);
            if (bytes > 0) {
                if (!step.fold && is_needed(step.take)) return;
                Slot& slot = slots_[posted_ % ahead];
                void* target = step.fold ? static_cast<void*>(scratch_.data() + posted_ % ahead * slot_bytes_)
                                         : static_cast<void*>(at(step.take.first));
                slot.message = channel_.receive(step.from, target, bytes);
                slot.posted = true;
            }
            ++posted_;
        }
    }

    /// Some step before `posted_` has not yet sent, or not yet changed, what lies there.
    bool is_needed(Chunks chunks) {
        if (outbox_.holds(channel_, chunks)) return true;
        for (std::size_t i = current_; i <= posted_ && i < steps_; ++i) {
            const Step step = i == current_ ? step_ : schedule_.step(i);
            const bool sends = step.to >= 0 && !(i == current_ && sent_);
            if (sends && overlap(step.send, chunks)) return true;
            if (i < posted_ && step.from >= 0 && overlap(step.take, chunks)) return true;
        }
        return false;
    }

    bool begin_send() {
        if (step_.to < 0) return true;
        const std::size_t bytes = bytes_of(step_.send);
        return bytes == 0 || outbox_.send(channel_, step_.to, at(step_.send.first), bytes, step_.send);
    }

    bool finish_take() {
        Slot& slot = slots_[current_ % ahead];
        if (posted_ <= current_) return false;  // what lies there is still being sent
        if (slot.posted) {
            if (!channel_.test(slot.message)) {
                outbox_.retire(channel_, 0);
                return false;
            }
            slot.posted = false;
        }
        if (!step_.fold) return true;
        if (outbox_.holds(channel_, step_.take)) return false;
        std::byte* own = at(step_.take.first);
        fold_(own, scratch_.data() + current_ % ahead * slot_bytes_, own, bytes_of(step_.take) / fold_.element());
        return true;
    }

    Channel<T> channel_;
    S schedule_;
    Layout layout_;
    std::byte* data_;
    Fold fold_;
    std::size_t steps_;
    std::size_t slot_bytes_ = 0;
    Loan scratch_;  // outlives the messages below, which write to it
    Step step_{};
    std::size_t current_ = 0, posted_ = 0;
    bool sent_ = false;
    std::array<Slot, ahead> slots_{};
    Outbox<T> outbox_;
};

}  // namespace hvd::detail
