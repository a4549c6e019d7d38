// Recovery: what becomes of a job when workers die: with how many it goes on, or with which words it ends; and the report.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/transport/launch_options.hpp>

namespace hvd::detail {

/// The death of one worker. `cause` follows "rank 3": "was killed by SIGKILL".
struct Loss {
    int rank = 0;  // -1: nobody's, as when the launcher ends
    std::string cause;
    std::uint64_t step = 0;  // in which it died, counted from 1

    bool is_like(const Loss& other) const { return rank == other.rank && step == other.step && cause == other.cause; }
    std::string text() const {
        return (rank < 0 ? cause : "rank " + std::to_string(rank) + " " + cause) + " in step " + std::to_string(step);
    }
};

class Recovery {
public:
    Recovery(const LaunchOptions& options, int workers) : options_{options}, workers_{workers} {
        for (int r = 0; r < workers; ++r) origins_.push_back(r);
    }

    /// Of the life that runs or is to begin.
    int workers() const { return workers_; }
    /// For each of its ranks the rank in the saved state whose PerRank objects it takes over.
    const std::vector<int>& origins() const { return origins_; }

    /// Decides on the next life. Returns the sentence with which the job ends, or nothing when it goes on.
    /// `has_committed`: the life that has ended made the newest commit.
    /// `shrinks`: it goes on with those that are left, at least until others join them.
    std::string lose(const std::vector<Loss>& losses, bool has_committed, bool shrinks) {
        std::vector<int> next;
        for (int r = 0; r < workers_; ++r) {
            const bool is_lost = std::any_of(losses.begin(), losses.end(), [r](const Loss& l) { return l.rank == r; });
            if (!is_lost || !shrinks) next.push_back(has_committed ? r : origins_[static_cast<std::size_t>(r)]);
        }
        const int before = workers_;
        workers_ = static_cast<int>(next.size());
        origins_ = std::move(next);
        for (const Loss& loss : losses) losses_.push_back(loss);
        for (const Loss& loss : losses) {
            const auto like = [&loss](const Loss& l) { return l.is_like(loss); };
            if (std::count_if(losses_.begin(), losses_.end(), like) >= most_alike)
                return "hvd: " + loss.text() +
                       " for the third time, so the job ends: a new start would end in the same way; look at what this "
                       "step does there";
        }
        const Loss& last = losses_.back();
        if (static_cast<int>(losses_.size()) > options_.max_failures)
            return "hvd: " + last.text() + ", which is failure " + std::to_string(losses_.size()) + " of at most " +
                   std::to_string(options_.max_failures) +
                   ", so the job ends; raise max_failures if that many are to be expected";
        if (workers_ < options_.min_workers)
            return "hvd: " + last.text() + ", which leaves " + std::to_string(workers_) + " of " +
                   std::to_string(before) + " workers, and min_workers is " + std::to_string(options_.min_workers) +
                   ", so the job ends";
        return {};
    }

    /// So many more take part from the next life on, without a past of their own.
    void gain(int workers, bool has_committed) {
        for (int r = 0; has_committed && r < workers_; ++r) origins_[static_cast<std::size_t>(r)] = r;
        workers_ += workers;
        origins_.resize(static_cast<std::size_t>(workers_), -1);
    }

    /// The time from the last commit before the newest losses to the first after it.
    void went_on_after(double seconds) { pauses_.emplace_back(losses_.size(), seconds); }

    bool has_lost() const { return !losses_.empty(); }
    /// Who, of what, in which step, and how long there was no progress.
    std::string report() const {
        std::string text =
            "hvd: the job lost " + std::to_string(losses_.size()) + (losses_.size() == 1 ? " worker:" : " workers:");
        std::size_t pause = 0;
        for (std::size_t i = 0; i < losses_.size(); ++i) {
            text += "\nhvd:   " + losses_[i].text();
            if (pause < pauses_.size() && pauses_[pause].first == i + 1) {
                char words[64];
                std::snprintf(words, sizeof words, " (%.2f s without progress)", pauses_[pause++].second);
                text += words;
            }
        }
        return text;
    }

private:
    static constexpr int most_alike = 3;

    LaunchOptions options_;
    int workers_;
    std::vector<int> origins_;
    std::vector<Loss> losses_;
    std::vector<std::pair<std::size_t, double>> pauses_;
};

}  // namespace hvd::detail
