// The sentence that says why an engine waits.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <hvd/core/error.hpp>

namespace hvd::detail {

/// Which ranks are missing, for which tensors, what each of them has submitted last where that can be seen, and how far all
/// have come. `Board` tells a rank's last submission by the hash of its name.
template <class Pending, class Board>
std::string stall_text(const Pending& pending, const Board& board, const std::vector<int>& missing,
                       std::chrono::duration<double> waited, const std::string& recent) {
    constexpr std::size_t most = 8;  // ranks and tensors named
    const long tenths = static_cast<long>(waited.count() * 10 + 0.5);
    std::string text = "hvd: waited " + std::to_string(tenths / 10);
    if (tenths < 100) text += "." + std::to_string(tenths % 10);
    text += " s for ";
    text += missing.empty() ? std::string{"other ranks"} : rank_list(missing);
    text += " to submit " + pending.names(6);
    for (std::size_t i = 0; i < missing.size() && i < most; ++i) {
        const auto last = board.last_submitted(missing[i]);
        if (last == 0) continue;
        const std::string name = pending.name_of(last);
        text += "; rank " + std::to_string(missing[i]) + " has submitted " +
                (name.empty() ? std::string{"a tensor that is unknown here"} : "'" + name + "'") + " last";
    }
    if (!recent.empty()) text += "; the last that all did was '" + recent + "'";
    return text;
}

}  // namespace hvd::detail
