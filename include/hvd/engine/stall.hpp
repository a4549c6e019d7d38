// The sentence that says why an engine waits.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <hvd/comm/agreement.hpp>

namespace hvd::detail {

/// The first rank that is not in `missing`, which ascends.
inline int lowest_not_in(const std::vector<int>& missing) {
    int lowest = 0;
    for (int r : missing)
        if (r == lowest) ++lowest;
    return lowest;
}

/// "4.0 s", or "40 s"
inline std::string seconds_text(std::chrono::duration<double> time) {
    const long tenths = static_cast<long>(time.count() * 10 + 0.5);
    return std::to_string(tenths / 10) + (tenths < 100 ? "." + std::to_string(tenths % 10) : "") + " s";
}

/// All ranks have submitted `names`; `peer` (-1: unknown) is the rank whose data are lacking.
inline std::string under_way_text(const std::string& names, int peer, std::chrono::duration<double> waited) {
    return "hvd: waited " + seconds_text(waited) + " for " +
           (peer < 0 ? std::string{"another rank"} : "rank " + std::to_string(peer)) +
           ", which is slow, stopped or gone, in the middle of " + names;
}

/// Which ranks are missing, for which tensors, what each of them has submitted last where that can be seen, and how far all
/// have come. `Board` tells a rank's last submission by the hash of its name.
template <class Pending, class Board>
std::string stall_text(const Pending& pending, const Board& board, const std::vector<int>& missing,
                       std::chrono::duration<double> waited, const std::string& recent) {
    constexpr std::size_t most = 8;  // ranks and tensors named
    std::string text = "hvd: waited " + seconds_text(waited) + " for ";
    text += missing.empty() ? std::string{"other ranks"} : rank_list(missing);
    text += " to submit " + pending.names(6);
    for (std::size_t i = 0; i < missing.size() && i < most; ++i) {
        const auto last = board.last_submitted(missing[i]);
        if (last == 0) continue;
        std::string name = pending.name_of(last);
        if (name.empty() && last == hash_bytes(hash_begin, recent)) name = recent;  // complete, and no longer pending
        text += "; rank " + std::to_string(missing[i]) + " has submitted " +
                (name.empty() ? std::string{"a tensor that is unknown here"} : "'" + name + "'") + " last";
    }
    if (!recent.empty()) text += "; the last that all did was '" + recent + "'";
    return text;
}

}  // namespace hvd::detail
