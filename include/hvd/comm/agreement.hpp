// Agreement: the check before a collective. When ranks make different calls, or one makes a wrong one, all get an error.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
inline std::string dispute_text(const std::vector<CallText>& calls) {
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

/// How a collective describes its call: a number that is equal exactly when calls match, and words for the error.
struct Call {
    std::uint64_t signature = hash_begin;
    std::string error{};  // of this rank alone

    Call& with(std::uint64_t value) {
        signature = hash_value(signature, value);
        return *this;
    }
    Call& with(double value) {
        std::uint64_t bits;
        static_assert(sizeof bits == sizeof value);
        std::memcpy(&bits, &value, sizeof bits);
        return with(bits);
    }
    static Call of(std::string_view kind) { return Call{hash_bytes(hash_begin, kind)}; }
};

/// Reached when all ranks have made the same, right call; otherwise all ranks throw. `describe()` gives the words.
template <Transport T, class Describe>
class Agreement final : public Operation {
public:
    /// `always`: even when checks are off; then all ranks have come.
    Agreement(Context<T>& context, Channel<T> channel, const Call& call, Describe describe, bool always = false)
        : channel_{channel},
          describe_{std::move(describe)},
          error_{call.error},
          exchange_{channel, CallHeader{call.signature, call.error.empty() ? 0u : 1u}},
          agreed_{(!context.options.checks && !always) || channel.size() == 1} {
        if (agreed_ && !error_.empty()) throw UsageError{error_};
    }

    /// May carry a payload.
    Exchange<T>& exchange() { return exchange_; }

    bool advance() override {
        if (agreed_) return true;
        if (!dispute_) {
            if (!exchange_.advance()) return false;
            if (exchange_.all_agree()) return agreed_ = true;
            dispute_.emplace(channel_, describe_(), error_);
        }
        return dispute_->advance();
    }

    int waiting_for() const override { return dispute_ ? dispute_->waiting_for() : exchange_.waiting_for(); }

private:
    Channel<T> channel_;
    Describe describe_;
    std::string error_;
    Exchange<T> exchange_;
    std::optional<Dispute<T>> dispute_;
    bool agreed_;
};

template <Transport T, class Describe>
std::unique_ptr<Operation> make_agreement(Context<T>& context, Channel<T> channel, const Call& call, Describe describe,
                                          bool always = false) {
    return std::make_unique<Agreement<T, Describe>>(context, channel, call, std::move(describe), always);
}

/// The sentence about a root that does not exist, or nothing.
inline std::string root_error(std::string_view name, int root, int rank, int size) {
    if (root >= 0 && root < size) return {};
    return located(std::string{name}, rank, size,
                   "there is no rank " + std::to_string(root) + " to be the root; give one from 0 to " + std::to_string(size - 1));
}

}  // namespace hvd::detail
