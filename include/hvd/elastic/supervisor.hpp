// The supervisor: the process that the user started, which starts the workers and starts them again when one dies.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hvd/elastic/worker_job.hpp>

namespace hvd::detail {

/// "was killed by SIGKILL", from what a shell says of its end.
inline std::string cause_of(int status) {
    if (status > 128 && status < 128 + NSIG) {
        const char* name = ::sigabbrev_np(status - 128);
        return std::string{"was killed by "} + (name != nullptr ? "SIG" + std::string{name} : std::to_string(status - 128));
    }
    return "left the program with code " + std::to_string(status) + " before it was done";
}

/// Signals that are meant for the job come to this process as data, for as long as it supervises.
class SignalGuard {
public:
    SignalGuard() {
        sigset_t signals;
        sigemptyset(&signals);
        for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&signals, s);
        ::sigprocmask(SIG_BLOCK, &signals, &before_);
        file_ = Descriptor{::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
    }
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;
    ~SignalGuard() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

    const sigset_t& before() const { return before_; }
    int file() const { return file_.number(); }
    /// The next one, or 0.
    int take() {
        signalfd_siginfo info;
        return ::read(file_.number(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
    }

private:
    sigset_t before_;
    Descriptor file_;
};

class Supervisor {
public:
    /// Throws UsageError for options that make no sense and when there is no mpiexec, TransportError without memory.
    Supervisor(const LaunchOptions& options, int workers, MpiKind kind)
        : options_{options},
          launcher_{mpi_launcher(kind, options.hosts)},
          page_{make_page(workers)},
          keeper_{options, workers, page_->progress} {
        const std::vector<int> slots = keeper_.store()->numbers();
        for (int r = 0; r < workers; ++r)
            for (int i = 0; i < 2; ++i) page_->record(r).slots[i] = slots[static_cast<std::size_t>(2 * r + i)];
        page_->commit_every = static_cast<std::uint64_t>(options.commit_every);
        page_->beat = options.deadline.count() / 10;
    }

    /// Lives until the job has ended. Returns its exit code.
    int run() {
        for (;;) {
            const Ending ending = live();
            if (ending.is_over) {
                if (!ending.words.empty()) say(ending.words);
                return keeper_.end_job(ending.code);
            }
            const std::string sentence = keeper_.end_life(ending.losses);
            if (!sentence.empty()) {
                say(sentence);
                return keeper_.end_job(1);
            }
            for (const Loss& loss : ending.losses) say("hvd: " + loss.text());
            say("hvd: the job goes on with " + std::to_string(keeper_.workers()) + " workers from the end of step " +
                std::to_string(page_->progress.sequence.load()));
        }
    }

private:
    using Clock = std::chrono::steady_clock;

    /// How a life ended: the job is over, or workers were lost.
    struct Ending {
        bool is_over = true;
        int code = 0;
        std::string words{};
        std::vector<Loss> losses{};
    };

    static void say(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

    ControlPage* make_page(int workers) {
        page_file_ = SlotFile::make();
        auto* page = new (page_file_.reserve(ControlPage::bytes(workers))) ControlPage{};
        page->magic = ControlPage::right_magic;
        page->records = workers;
        return page;
    }

    void begin_life() {
        keeper_.begin_life();
        page_->life = keeper_.life();
        page_->workers = keeper_.workers();
        page_->has_state = keeper_.newest() ? 1 : 0;
        if (keeper_.newest()) page_->newest = *keeper_.newest();
        page_->clear_records();
        for (int r = 0; r < keeper_.workers(); ++r)
            page_->record(r).origin = keeper_.recovery().origins()[static_cast<std::size_t>(r)];
    }

    Ending live() {
        begin_life();
        const SupervisorAddress address{static_cast<int>(::getpid()), page_file_.number(), keeper_.life()};
        WorkerJob job{launcher_, keeper_.workers(), address.text(), signals_.before()};
        bool is_collecting = false;  // a worker has died, and others may have died with it
        Clock::time_point until{};
        for (;;) {
            pollfd files[] = {{job.reports(), POLLIN, 0}, {signals_.file(), POLLIN, 0}, {job.launcher_end(), POLLIN, 0}};
            ::poll(files, 3, is_collecting ? 5 : look_every());
            if (const int signal = forward_signals(); signal != 0) {
                job.end(*page_);
                return {true, 128 + signal, "hvd: the supervisor got signal " + std::to_string(signal) +
                                                ", so the job ends"};
            }
            job.take_reports();
            const bool launcher_has_ended = (files[2].revents & POLLIN) != 0;
            if (launcher_has_ended) job.take_reports();
            look_for_silence(job);
            if (is_finished(job)) return finish(job);
            if (!is_collecting && !launcher_has_ended && !has_loss(job)) continue;
            if (!is_collecting) {
                is_collecting = true;
                until = Clock::now() + std::chrono::milliseconds{10};
            }
            if (!launcher_has_ended && Clock::now() < until) continue;
            job.end(*page_);
            return judge(job);
        }
    }

    int look_every() const {
        const double seconds = options_.deadline.count() / 8;
        return seconds <= 0 || seconds > 1 ? 1000 : static_cast<int>(seconds * 1000) + 1;
    }

    /// Returns the one by which the job is to end, or 0.
    int forward_signals() {
        while (const int signal = signals_.take()) {
            if (signal != SIGUSR1 && signal != SIGUSR2) return signal;
            for (int r = 0; r < keeper_.workers(); ++r)
                if (const int pid = page_->record(r).pid.load(); pid > 0) ::kill(pid, signal);
        }
        return 0;
    }

    bool has_returned(int rank) const { return page_->record(rank).phase.load() == WorkerPhase::Returned; }

    bool is_finished(WorkerJob& job) {
        for (int r = 0; r < keeper_.workers(); ++r)
            if (!has_returned(r) || !job.workers()[static_cast<std::size_t>(r)].ended) return false;
        return true;
    }
    /// The code is that with which the program of a worker ended, if it ended by itself.
    Ending finish(WorkerJob& job) {
        job.wait_for_launcher();
        Ending ending;
        for (const auto& worker : job.workers())
            if (ending.code == 0 && worker.status <= 128) ending.code = worker.status;
        return ending;
    }
    bool has_loss(WorkerJob& job) {
        for (int r = 0; r < keeper_.workers(); ++r)
            if (job.workers()[static_cast<std::size_t>(r)].ended && !has_returned(r)) return true;
        return false;
    }

    /// Kills workers that have given no sign of life for longer than the deadline.
    void look_for_silence(WorkerJob& job) {
        if (options_.deadline.count() <= 0) return;
        const auto now = Clock::now();
        for (int r = 0; r < keeper_.workers(); ++r) {
            auto& worker = job.workers()[static_cast<std::size_t>(r)];
            const int pid = page_->record(r).pid.load();
            const std::uint64_t pulse = page_->record(r).pulse.load();
            if (pid <= 0 || worker.ended || has_returned(r)) continue;
            if (pulse != worker.pulse || worker.seen == Clock::time_point{}) {
                worker.pulse = pulse;
                worker.seen = now;
            } else if (now - worker.seen > options_.deadline && worker.why.empty()) {
                char seconds[32];
                std::snprintf(seconds, sizeof seconds, "%.3g s", options_.deadline.count());
                worker.why = std::string{"gave no sign of life for "} + seconds;
                ::kill(pid, SIGKILL);
            }
        }
    }

    /// After the end of all: whether the job is over, or who was lost.
    Ending judge(WorkerJob& job) {
        std::vector<Loss> losses;
        const std::uint64_t step = page_->progress.sequence.load() + 1;
        int consequence = -1;
        for (int r = 0; r < keeper_.workers(); ++r) {
            const WorkerRecord& record = page_->record(r);
            const auto& worker = job.workers()[static_cast<std::size_t>(r)];
            if (record.phase.load() == WorkerPhase::Threw) {
                if (record.is_transport.load() == 0) return {true, 1, failure_text(r)};
                consequence = r;
            } else if (worker.ended && !has_returned(r)) {
                losses.push_back({r, worker.why.empty() ? cause_of(worker.status) : worker.why, step});
            }
        }
        if (all_returned()) return {};
        if (losses.empty() && consequence >= 0) return {true, 1, failure_text(consequence)};
        if (losses.empty()) {
            const std::string cause = "the MPI launcher ended the job (code " + std::to_string(job.wait_for_launcher()) +
                                      ") with no worker lost before, as after MPI_Abort";
            if (!job.has_started()) return try_again();
            losses.push_back({-1, cause, step});
        }
        failed_starts_ = 0;
        return {false, 0, {}, std::move(losses)};
    }
    bool all_returned() const {
        for (int r = 0; r < keeper_.workers(); ++r)
            if (!has_returned(r)) return false;
        return true;
    }

    /// No worker came to life: a machine may be busy or away for a while.
    Ending try_again() {
        if (failed_starts_++ == 0) first_failed_start_ = Clock::now();
        const auto waited = Clock::now() - first_failed_start_;
        if (failed_starts_ > 1 && waited > options_.rejoin_timeout)
            return {true, 1, "hvd: " + launcher_[0] + " could not start the workers for " +
                                 std::to_string(options_.rejoin_timeout.count()) +
                                 " s (rejoin_timeout), so the job ends; see what it says, or name another in HVD_MPIEXEC"};
        std::this_thread::sleep_for(std::chrono::milliseconds{200});
        return live();
    }

    std::string failure_text(int rank) const {
        return "hvd: rank " + std::to_string(rank) + " of " + std::to_string(keeper_.workers()) +
               " failed, so this job ends: " + page_->record(rank).text;
    }

    LaunchOptions options_;
    std::vector<std::string> launcher_;
    SlotFile page_file_;
    ControlPage* page_;
    mutable Keeper keeper_;
    SignalGuard signals_;
    int failed_starts_ = 0;
    Clock::time_point first_failed_start_{};
};

/// Runs an elastic job whose workers are processes of MPI. Throws UsageError when the options make no sense.
inline int supervise(const LaunchOptions& options, int workers, MpiKind kind) {
    Supervisor supervisor{options, workers, kind};
    return supervisor.run();
}

}  // namespace hvd::detail
