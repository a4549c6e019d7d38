// Agreement: the check before a collective. When ranks make different calls, or one makes a wrong one, all get an error.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hvd/comm/call.hpp>
#include <hvd/comm/context.hpp>
#include <hvd/comm/exchange.hpp>
#include <hvd/comm/transfers.hpp>
#include <hvd/core/error.hpp>

namespace hvd::detail {

/// What one rank calls, in full; looked at only when ranks disagree.
struct CallText {
    char call[224] = {};
    char error[288] = {};  // empty when the call is right as far as this rank can see

    static void copy(char* to, std::size_t room, std::string_view text) {
        const std::size_t n = text.size() < room - 1 ? text.size() : room - 1;
        std::memcpy(to, text.data(), n);
        to[n] = '\0';
    }
};

/// "ranks 0, 1 and 4"
inline std::string rank_list(const std::vector<int>& ranks) {
    constexpr std::size_t most = 8;
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size() && i < most; ++i) {
        if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
    return text;
}

/// The sentence for all ranks: who made a wrong call, or who called what.
template <class Text = CallText>
std::string dispute_text(const std::vector<Text>& calls) {
    for (std::size_t r = 0; r < calls.size(); ++r) {
        if (calls[r].error[0] == '\0') continue;
        return "hvd: the call of rank " + std::to_string(r) + " is wrong, so none was carried out: " + calls[r].error;
    }
    std::vector<std::string> kinds;
    std::vector<std::vector<int>> ranks;
    for (std::size_t r = 0; r < calls.size(); ++r) {
        std::size_t k = 0;
        while (k < kinds.size() && kinds[k] != calls[r].call) ++k;
        if (k == kinds.size()) {
            kinds.emplace_back(calls[r].call);
            ranks.emplace_back();
        }
        ranks[k].push_back(static_cast<int>(r));
    }
    std::string text = "hvd: the ranks disagree: ";
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        if (k > 0) text += ", ";
        if (k == 4) {
            text += "and others differ too";
            break;
        }
        text += rank_list(ranks[k]) + (ranks[k].size() == 1 ? " calls " : " call ") + kinds[k];
    }
    return text + "; make the same call on every rank";
}

/// Gathers the texts of all ranks and throws on each: the own UsageError on a rank at fault, else MismatchError.
template <Transport T>
class Dispute final : public Operation {
public:
    Dispute(Channel<T> channel, const std::string& call, const std::string& error)
        : error_{error}, texts_(static_cast<std::size_t>(channel.size())) {
        CallText::copy(own_.call, sizeof own_.call, call);
        CallText::copy(own_.error, sizeof own_.error, error);
        transfers_ = gather_everywhere(channel, &own_, texts_.data(), sizeof own_);
    }
    bool advance() override {
        if (!transfers_->advance()) return false;
        if (!error_.empty()) throw UsageError{error_};
        throw MismatchError{dispute_text(texts_)};
    }
    int waiting_for() const override { return transfers_->waiting_for(); }

private:
    std::string error_;
    CallText own_;
    std::vector<CallText> texts_;
    std::unique_ptr<Transfers<T>> transfers_;
};

/// Reached when all ranks have made the same, right call; otherwise all ranks throw.
template <Transport T>
class Agreement final : public Operation {
public:
    /// `kind` Barrier: compare even when checks are off; then all ranks have come. With checks off a call that is wrong on
    /// this rank throws here. `kind` Later: not made in the order of calls, so not on the board.
    enum class Kind { Call, Barrier, Later };

    Agreement(Context<T>& context, Channel<T> channel, Call call, Kind kind = Kind::Call)
        : channel_{channel},
          call_{std::move(call)},
          agreed_{(!context.options.checks && kind != Kind::Barrier) || channel.size() == 1},
          exchange_{channel, CallHeader{call_.signature(), call_.error().empty() ? 0u : 1u},
                    agreed_ || kind == Kind::Later ? nullptr : context.board} {
        if (agreed_ && !call_.error().empty()) throw UsageError{call_.error()};
    }

    /// May carry a payload.
    Exchange<T>& exchange() { return exchange_; }

    bool advance() override {
        if (agreed_) return true;
        if (!dispute_) {
            if (!exchange_.advance()) return false;
            if (exchange_.all_agree()) return agreed_ = true;
            dispute_ = std::make_unique<Dispute<T>>(channel_, call_.text(), call_.error());
        }
        return dispute_->advance();
    }

    int waiting_for() const override { return dispute_ ? dispute_->waiting_for() : exchange_.waiting_for(); }

private:
    Channel<T> channel_;
    Call call_;
    bool agreed_;
    Exchange<T> exchange_;
    std::unique_ptr<Dispute<T>> dispute_;
};

/// The agreement on a call, made when the call is made.
template <Transport T>
std::unique_ptr<Operation> agree(Context<T>& context, Channel<T> channel, Call call) {
    return std::make_unique<Agreement<T>>(context, channel, std::move(call));
}

/// One in the middle of an operation.
template <Transport T>
std::unique_ptr<Operation> agree_later(Context<T>& context, Channel<T> channel, Call call) {
    return std::make_unique<Agreement<T>>(context, channel, std::move(call), Agreement<T>::Kind::Later);
}

}  // namespace hvd::detail
