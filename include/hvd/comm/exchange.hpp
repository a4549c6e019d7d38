// Exchange: one short message per rank, combined over all ranks, that finds out whether they make the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <hvd/algorithm/recursive_doubling.hpp>
#include <hvd/core/fold.hpp>
#include <hvd/transport/channel.hpp>

namespace hvd::detail {

/// What the ranks compare. `signature` says all that must be equal about the call.
struct CallHeader {
    std::uint64_t signature = 0;
    std::uint64_t disagree = 0;
};

/// Recursive doubling over [header | payload]. The payload is reduced with `fold`, always as lower rank op higher rank,
/// so that all ranks hold the same bits. All exchanges use the same peers and the same room, whatever they carry, so
/// that one meets the other when ranks make different calls.
template <Transport T>
class Exchange final : public Operation {
public:
    /// The longest payload, in bytes.
    static constexpr std::size_t room = 4096;

    Exchange(Channel<T> channel, CallHeader header) : channel_{channel}, schedule_{channel.rank(), channel.size()} {
        std::memcpy(own_, &header, sizeof header);
    }

    /// Where the caller puts the payload before the exchange, and finds the result after it.
    std::byte* payload() { return own_ + sizeof(CallHeader); }
    void carry(std::size_t bytes, Fold fold) {
        bytes_ = bytes;
        fold_ = fold;
    }

    /// Valid when the exchange is complete.
    bool all_agree() const { return header(own_).disagree == 0; }

    bool advance() override {
        for (; step_ < schedule_.steps(); ++step_, begun_ = false) {
            const Step step = schedule_.step(step_);
            if (!begun_) {
                if (step.from >= 0) incoming_message_ = channel_.receive(step.from, incoming_, sizeof incoming_);
                if (step.to >= 0) outgoing_message_ = channel_.send(step.to, own_, sizeof(CallHeader) + bytes_);
                begun_ = true;
            }
            if (!channel_.test(incoming_message_) || !channel_.test(outgoing_message_)) return false;
            if (step.from >= 0) take(step);
        }
        return true;
    }

    int waiting_for() const override { return step_ < schedule_.steps() ? schedule_.step(step_).from : -1; }

private:
    static CallHeader header(const std::byte* message) {
        CallHeader h;
        std::memcpy(&h, message, sizeof h);
        return h;
    }

    void take(const Step& step) {
        CallHeader mine = header(own_);
        const CallHeader theirs = header(incoming_);
        const bool disagree = mine.disagree != 0 || theirs.disagree != 0 || mine.signature != theirs.signature;
        if (disagree) {
            mine.disagree = 1;
            std::memcpy(own_, &mine, sizeof mine);
            return;
        }
        if (bytes_ == 0) return;
        std::byte *own = payload(), *other = incoming_ + sizeof(CallHeader);
        if (!step.fold) std::memcpy(own, other, bytes_);
        else if (step.from < channel_.rank()) fold_(own, other, own, bytes_ / fold_.element());
        else fold_(own, own, other, bytes_ / fold_.element());
    }

    Channel<T> channel_;
    RecursiveDoublingSchedule schedule_;
    std::size_t step_ = 0, bytes_ = 0;
    Fold fold_;
    bool begun_ = false;
    alignas(64) std::byte own_[sizeof(CallHeader) + room];
    alignas(64) std::byte incoming_[sizeof(CallHeader) + room];
    typename T::Message incoming_message_, outgoing_message_;
};

}  // namespace hvd::detail
