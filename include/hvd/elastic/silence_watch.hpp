// SilenceWatch: finds processes of a job that no longer run, though they have not ended.
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include <hvd/elastic/members.hpp>

namespace hvd::detail {

class SilenceWatch {
public:
    using Seconds = std::chrono::duration<double>;

    /// 0: never.
    explicit SilenceWatch(Seconds deadline) : deadline_{deadline} {}

    /// For new processes.
    void clear() { stopped_.clear(); }

    /// In milliseconds.
    int look_every() const {
        const double seconds = deadline_.count() / 8;
        return seconds <= 0 || seconds > 1 ? 1000 : static_cast<int>(seconds * 1000) + 1;
    }

    /// Kills workers that have given no sign of life for longer than the deadline, and wakes what else of the job is stopped that
    /// long. `since` the last look; a supervisor that did not run itself learns nothing from silence.
    void look(WorkerJob& job, ControlPage& page, const Members& members, Seconds since) {
        if (deadline_.count() <= 0) return;
        since = std::min(since, Seconds{2e-3 * look_every()});
        char why[64];
        std::snprintf(why, sizeof why, "gave no sign of life for %.3g s", deadline_.count());
        for (const int r : members) {
            auto& worker = job.workers()[static_cast<std::size_t>(r)];
            const int pid = page.record(r).pid.load();
            const std::uint64_t pulse = page.record(r).pulse.load();
            if (pid <= 0 || worker.ended) continue;
            worker.silence = pulse == worker.pulse ? worker.silence + since : Seconds{0};
            worker.pulse = pulse;
            if (worker.silence < deadline_ || !worker.why.empty()) continue;
            worker.why = why;
            ::kill(pid, SIGKILL);
        }
        looked_for_stopped_ += since;
        if (looked_for_stopped_ < deadline_ / 4) return;
        const Seconds passed = std::exchange(looked_for_stopped_, Seconds{0});
        std::vector<std::pair<int, Seconds>> stopped;
        for (const auto [pid, is_worker] : job.stopped()) {
            const auto before =
                std::find_if(stopped_.begin(), stopped_.end(), [p = pid](const auto& s) { return s.first == p; });
            stopped.emplace_back(pid, before == stopped_.end() ? Seconds{0} : before->second + passed);
            if (stopped.back().second >= deadline_) ::kill(pid, is_worker ? SIGKILL : SIGCONT);
        }
        stopped_ = std::move(stopped);
    }

private:
    Seconds deadline_;
    std::vector<std::pair<int, Seconds>> stopped_;  // processes, and for how long
    Seconds looked_for_stopped_{0};
};

}  // namespace hvd::detail
