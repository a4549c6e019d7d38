// Exchange: one short message per rank, combined over all ranks, that finds out whether they make the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <hvd/algorithm/recursive_doubling.hpp>
#include <hvd/comm/board.hpp>
#include <hvd/core/fold.hpp>
#include <hvd/transport/channel.hpp>

namespace hvd::detail {

/// Compares a header and, when all are equal, reduces a payload, from rank 0 up, so that all ranks hold the same bits.
/// On one node over the board, otherwise by recursive doubling over messages [header | payload]. All exchanges use the
/// same peers and the same room, whatever they carry, so that one meets the other when ranks make different calls.
template <Transport T>
class Exchange final : public Operation {
public:
    /// The longest payload, in bytes.
    static constexpr std::size_t room = Board::room;

    /// On a board, exchanges are made in the same order on all ranks.
    Exchange(Channel<T> channel, CallHeader header, std::shared_ptr<Board> board)
        : channel_{channel}, schedule_{channel.rank(), channel.size()}, board_{std::move(board)}, header_{header} {
        if (board_) number_ = board_->next_number();
    }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    ~Exchange() override {
        if (board_ && !is_finished_) board_->finish(number_);  // given up; do not hold up the slots
    }

    /// Where the caller puts the payload before the exchange, and finds the result after it.
    std::byte* payload() { return own_ + sizeof(CallHeader); }
    void carry(std::size_t bytes, Fold fold) {
        bytes_ = bytes;
        fold_ = fold;
    }

    /// Valid when the exchange is complete.
    bool all_agree() const { return header_.disagree == 0; }

    /// The ranks that are known not to have come.
    std::vector<int> missing() const {
        std::vector<int> ranks;
        if (board_) {
            for (int r = 0; r < board_->size(); ++r)
                if (board_->read(r, number_) == nullptr) ranks.push_back(r);
        } else if (const int peer = waiting_for(); peer >= 0) {
            ranks.push_back(peer);
        }
        return ranks;
    }

    bool advance() override { return board_ ? advance_on_board() : advance_by_messages(); }

    int waiting_for() const override {
        if (board_) return peer_;
        return step_ < schedule_.steps() ? schedule_.step(step_).from : -1;
    }

private:
    bool advance_on_board() {
        if (!begun_ && !(begun_ = board_->write(number_, header_, payload(), bytes_))) return false;
        for (; peer_ < board_->size(); ++peer_) {
            const Board::Notice* notice = board_->read(peer_, number_);
            if (notice == nullptr) return false;
            if (notice->header.disagree != 0 || notice->header.signature != header_.signature) header_.disagree = 1;
        }
        peer_ = -1;
        if (bytes_ > 0 && all_agree()) reduce_notices();
        board_->finish(number_);
        is_finished_ = true;
        return true;
    }

    void reduce_notices() {
        constexpr int most = 32;
        const void* inputs[most];
        int count = 0;
        for (int r = 0; r < board_->size(); ++r) {
            inputs[count++] = board_->read(r, number_)->payload;
            if (count < most && r + 1 < board_->size()) continue;
            fold_.many(payload(), inputs, static_cast<std::size_t>(count), bytes_ / fold_.element());
            inputs[0] = payload();
            count = 1;
        }
    }

    bool advance_by_messages() {
        if (step_ == 0 && !begun_) std::memcpy(own_, &header_, sizeof header_);
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

    void take(const Step& step) {
        CallHeader theirs;
        std::memcpy(&theirs, incoming_, sizeof theirs);
        if (header_.disagree != 0 || theirs.disagree != 0 || header_.signature != theirs.signature) {
            header_.disagree = 1;
            std::memcpy(own_, &header_, sizeof header_);
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
    std::shared_ptr<Board> board_;
    std::uint64_t number_ = 0;
    CallHeader header_;
    int peer_ = 0;
    std::size_t step_ = 0, bytes_ = 0;
    Fold fold_;
    bool begun_ = false, is_finished_ = false;
    alignas(64) std::byte own_[sizeof(CallHeader) + room];
    alignas(64) std::byte incoming_[sizeof(CallHeader) + room];
    typename T::Message incoming_message_, outgoing_message_;
};

}  // namespace hvd::detail
