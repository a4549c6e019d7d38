// Members: who takes part in the life of a job that runs, as the supervisor sees them. A worker goes by the number of its
// record, which it keeps; ranks are the places in a life.
#pragma once

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <hvd/elastic/control_page.hpp>
#include <hvd/elastic/worker_job.hpp>

namespace hvd::detail {

/// "was killed by SIGKILL", from what a shell says of its end.
inline std::string cause_of(int status) {
    if (status > 128 && status < 128 + NSIG) {
        const char* name = ::sigabbrev_np(status - 128);
        return std::string{"was killed by "} +
               (name != nullptr ? "SIG" + std::string{name} : std::to_string(status - 128));
    }
    return "left the program with code " + std::to_string(status) + " before it was done";
}

class Members {
public:
    explicit Members(ControlPage& page) : page_{&page} {}

    void assign(std::vector<int> records) { records_ = std::move(records); }
    auto begin() const { return records_.begin(); }
    auto end() const { return records_.end(); }
    std::size_t size() const { return records_.size(); }
    bool has(int record) const { return std::find(begin(), end(), record) != end(); }
    void add(int record) { records_.push_back(record); }

    /// Tells all of them their places.
    void take_places(const std::vector<int>& origins) {
        for (std::size_t rank = 0; rank < records_.size(); ++rank) {
            page_->record(records_[rank]).rank = static_cast<int>(rank);
            page_->record(records_[rank]).origin = origins[rank];
            page_->record(static_cast<int>(rank)).member = records_[rank];
        }
    }

    WorkerPhase phase(int rank) const { return page_->record(rank).phase.load(); }
    bool has_left(int rank) const { return phase(rank) >= WorkerPhase::Leaving && phase(rank) != WorkerPhase::Threw; }

    template <class Condition>
    bool all(Condition is_true) const {
        return std::all_of(records_.begin(), records_.end(), is_true);
    }
    bool is_anybody_waiting() const {
        return !all([this](int r) { return phase(r) != WorkerPhase::Waiting; });
    }
    /// Some of those who were to join have not come to their part.
    bool is_anybody_missing() const {
        return page_->newcomers > 0 && !all([this](int r) { return phase(r) >= WorkerPhase::Running; });
    }
    /// Workers have been called out of this life.
    bool is_changing() const { return page_->wanted.load() > page_->ready.load(); }
    int rank_of(int record) const { return page_->record(record).rank; }
    bool have_all_left() const {
        return all([this](int r) { return has_left(r); });
    }
    bool is_finished(const WorkerJob& job) const {
        return all([&](int r) { return has_left(r) && job.workers()[static_cast<std::size_t>(r)].ended; });
    }
    bool has_nobody_left(const WorkerJob& job) const {
        return all([&](int r) { return job.workers()[static_cast<std::size_t>(r)].ended; });
    }
    /// A worker has ended that others may wait for.
    bool is_lost(const WorkerJob& job, int r) const {
        const auto& worker = job.workers()[static_cast<std::size_t>(r)];
        return worker.ended && (phase(r) != WorkerPhase::Exiting || worker.status > 128);
    }
    bool has_loss(const WorkerJob& job) const {
        return !all([&](int r) { return !is_lost(job, r); });
    }
    bool has_only_consequences(const WorkerJob& job) const {
        return all([&](int r) {
            return !is_lost(job, r) || (phase(r) == WorkerPhase::Threw && page_->record(r).is_transport.load() != 0);
        });
    }

    Loss loss(const WorkerJob& job, int r) const {
        const auto& worker = job.workers()[static_cast<std::size_t>(r)];
        return {rank_of(r), worker.why.empty() ? cause_of(worker.status) : worker.why,
                page_->progress.sequence.load() + 1};
    }
    std::string failure_text(int record) const {
        return "hvd: rank " + std::to_string(rank_of(record)) + " of " + std::to_string(records_.size()) +
               " failed, so this job ends: " + page_->record(record).text;
    }

private:
    ControlPage* page_;
    std::vector<int> records_;  // of each rank
};

}  // namespace hvd::detail
