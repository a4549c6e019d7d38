// The supervisor: the process that the user started, which starts the workers and starts them again when one dies.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hvd/elastic/left_memory.hpp>
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
    /// `launch` is the how manieth of the program's. Throws UsageError for options that make no sense and when there is no
    /// mpiexec, TransportError without memory.
    Supervisor(const LaunchOptions& options, int workers, MpiKind kind, int launch)
        : options_{options},
          kind_{kind},
          launch_{launch},
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
        Clock::time_point first_failed_start{};
        for (bool has_failed_to_start = false;;) {
            const std::time_t began = std::time(nullptr);
            const Clock::time_point start = Clock::now();
            const Ending ending = live();
            if (has_killed_) remove_left_memory(began - 1);
            if (ending.kind == Ending::Kind::Over) {
                if (!ending.words.empty()) say(ending.words);
                return keeper_.end_job(ending.code);
            }
            if (ending.kind == Ending::Kind::NotStarted) {  // a machine may be busy or away for a while
                if (!std::exchange(has_failed_to_start, true)) first_failed_start = start;
                if (const Seconds time = Clock::now() - first_failed_start; time > options_.rejoin_timeout) {
                    say(no_start(time));
                    return keeper_.end_job(1);
                }
                std::this_thread::sleep_for(std::chrono::milliseconds{500});
                continue;
            }
            has_failed_to_start = false;
            const std::string sentence = keeper_.end_life(ending.losses);
            for (const Loss& loss : ending.losses) say("hvd: " + loss.text());
            if (!sentence.empty()) {
                say(sentence);
                return keeper_.end_job(1);
            }
            const std::uint64_t step = keeper_.newest() ? keeper_.newest()->sequence : 0;
            say("hvd: the job goes on with " + std::to_string(keeper_.workers()) +
                (keeper_.workers() == 1 ? " worker" : " workers") +
                (step == 0 ? " from its beginning" : " from the end of step " + std::to_string(step)));
        }
    }

private:
    using Clock = std::chrono::steady_clock;
    using Seconds = std::chrono::duration<double>;

    /// How a life ended: the job is over, workers were lost, or none came to life.
    struct Ending {
        enum class Kind { Over, Lost, NotStarted } kind = Kind::Over;
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
        stopped_.clear();
        has_killed_ = was_cut_off_ = false;
    }

    void end(WorkerJob& job) {
        has_killed_ = true;
        was_cut_off_ = job.is_cut_off();
        job.end(*page_);
    }

    Ending live() {
        begin_life();
        const SupervisorAddress address{static_cast<int>(::getpid()), page_file_.number(), launch_, keeper_.life()};
        WorkerJob job{launcher_, kind_, keeper_.workers(), address.text(), signals_.before()};
        std::optional<Clock::time_point> until;  // a worker has died, and others may have died with it
        std::optional<Clock::time_point> leaving_until;
        int ending_signal = 0;
        const auto start = Clock::now();
        auto looked = start;
        for (;;) {
            pollfd files[] = {
                {job.reports(), POLLIN, 0}, {signals_.file(), POLLIN, 0}, {job.launcher_end(), POLLIN, 0}};
            ::poll(files, 3, until || leaving_until || ending_signal != 0 ? 5 : look_every());
            const bool launcher_has_ended = job.has_launcher_ended();
            job.take_reports();
            const auto now = Clock::now();
            if (const int signal = forward_signals(job); signal != 0) {
                if (ending_signal != 0) until = now;
                else until = now + std::chrono::seconds{5};
                ending_signal = signal;
            }
            job.look_for_dead_shells();
            look_for_silence(job, Seconds{now - looked});
            looked = now;
            if (is_finished(job) && job.is_cut_off()) {  // whose last words are lost: they end once more
                end(job);
                return {Ending::Kind::Lost, 0, {}, {lost_launcher(job)}};
            }
            if (is_finished(job)) return finish(job);
            if (launcher_has_ended) {
                end(job);
                return ending_signal != 0 ? ended_by(ending_signal) : judge(job);
            }
            if (ending_signal == 0 && !job.have_all_started() && now - start > patience_at_start()) {
                end(job);
                return {Ending::Kind::NotStarted};
            }
            if (have_all_left()) {
                if (!has_loss(job)) continue;  // or some may wait for others in the end of MPI
                if (!leaving_until) leaving_until = now + std::chrono::seconds{1};
                if (now > *leaving_until) end_the_stuck(job);
                continue;
            }
            if (ending_signal != 0) {
                if (now < *until && !has_nobody_left(job)) continue;
                end(job);
                return ended_by(ending_signal);
            }
            if (!has_loss(job)) continue;
            // What is thrown as the consequence of another's end may be noticed before its cause.
            if (!until) until = now + std::chrono::milliseconds{has_only_consequences(job) ? 500 : 10};
            else if (!has_only_consequences(job) && *until > now + std::chrono::milliseconds{10})
                until = now + std::chrono::milliseconds{10};
            if (now < *until) continue;
            end(job);
            return have_all_left() ? finish(job) : judge(job);
        }
    }

    /// For a launcher that neither starts all workers nor ends.
    Seconds patience_at_start() const { return std::max<Seconds>(options_.rejoin_timeout, std::chrono::seconds{10}); }

    int look_every() const {
        const double seconds = options_.deadline.count() / 8;
        return seconds <= 0 || seconds > 1 ? 1000 : static_cast<int>(seconds * 1000) + 1;
    }

    /// Returns the one by which the job is to end, or 0.
    int forward_signals(WorkerJob& job) {
        int end = 0;
        while (const int signal = signals_.take()) {
            if (signal != SIGUSR1 && signal != SIGUSR2) end = signal;
            for (int r = 0; r < keeper_.workers(); ++r)
                if (const int pid = page_->record(r).pid.load(); pid > 0 && !job.workers()[index(r)].ended)
                    ::kill(pid, signal);
        }
        return end;
    }
    Ending ended_by(int signal) const {
        const char* name = ::sigabbrev_np(signal);
        return {Ending::Kind::Over, 128 + signal,
                std::string{"hvd: the supervisor got SIG"} + (name != nullptr ? name : "NAL") + ", so the job ends"};
    }

    static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
    WorkerPhase phase(int rank) const { return page_->record(rank).phase.load(); }
    bool has_left(int rank) const { return phase(rank) >= WorkerPhase::Leaving && phase(rank) != WorkerPhase::Threw; }

    template <class Condition>
    bool all(Condition is_true) const {
        for (int r = 0; r < keeper_.workers(); ++r)
            if (!is_true(r)) return false;
        return true;
    }
    bool have_all_left() const {
        return all([this](int r) { return has_left(r); });
    }
    bool is_finished(WorkerJob& job) const {
        return all([&](int r) { return has_left(r) && job.workers()[index(r)].ended; });
    }
    bool has_nobody_left(WorkerJob& job) const {
        return all([&](int r) { return job.workers()[index(r)].ended; });
    }
    void end_the_stuck(WorkerJob& job) {
        for (int r = 0; r < keeper_.workers(); ++r)
            if (phase(r) != WorkerPhase::Returned && !job.workers()[index(r)].ended) job.kill_worker(r);
    }
    /// A worker has ended that others may wait for.
    bool is_lost(WorkerJob& job, int r) const {
        const auto& worker = job.workers()[index(r)];
        return worker.ended && (phase(r) != WorkerPhase::Exiting || worker.status > 128);
    }
    bool has_loss(WorkerJob& job) const {
        return !all([&](int r) { return !is_lost(job, r); });
    }
    bool has_only_consequences(WorkerJob& job) const {
        return all([&](int r) {
            return !is_lost(job, r) || (phase(r) == WorkerPhase::Threw && page_->record(r).is_transport.load() != 0);
        });
    }

    /// The code is that with which the program of a worker ended, if it ended by itself.
    Ending finish(WorkerJob& job) {
        if (has_loss(job)) end(job);
        else job.wait_for_launcher(std::max(options_.deadline, Seconds{1}));
        Ending ending;
        for (int r = 0; r < keeper_.workers(); ++r)
            if (const int code = job.workers()[index(r)].status; code <= 128 && phase(r) == WorkerPhase::Exiting)
                ending.code = std::max(ending.code, code);
        return ending;
    }

    /// Kills workers that have given no sign of life for longer than the deadline, and wakes what else of the job is stopped that
    /// long. `since` the last look; a supervisor that did not run itself learns nothing from silence.
    void look_for_silence(WorkerJob& job, Seconds since) {
        if (options_.deadline.count() <= 0) return;
        since = std::min(since, Seconds{2e-3 * look_every()});
        char why[64];
        std::snprintf(why, sizeof why, "gave no sign of life for %.3g s", options_.deadline.count());
        for (int r = 0; r < keeper_.workers(); ++r) {
            auto& worker = job.workers()[index(r)];
            const int pid = page_->record(r).pid.load();
            const std::uint64_t pulse = page_->record(r).pulse.load();
            if (pid <= 0 || worker.ended) continue;
            worker.silence = pulse == worker.pulse ? worker.silence + since : Seconds{0};
            worker.pulse = pulse;
            if (worker.silence < options_.deadline || !worker.why.empty()) continue;
            worker.why = why;
            ::kill(pid, SIGKILL);
        }
        looked_for_stopped_ += since;
        if (looked_for_stopped_ < options_.deadline / 4) return;
        const Seconds passed = std::exchange(looked_for_stopped_, Seconds{0});
        std::vector<std::pair<int, Seconds>> stopped;
        for (const auto [pid, is_worker] : job.stopped()) {
            const auto before =
                std::find_if(stopped_.begin(), stopped_.end(), [p = pid](const auto& s) { return s.first == p; });
            stopped.emplace_back(pid, before == stopped_.end() ? Seconds{0} : before->second + passed);
            if (stopped.back().second >= options_.deadline) ::kill(pid, is_worker ? SIGKILL : SIGCONT);
        }
        stopped_ = std::move(stopped);
    }

    /// After the end of all: whether the job is over, or who was lost.
    Ending judge(WorkerJob& job) const {
        std::vector<Loss> losses;
        const std::uint64_t step = page_->progress.sequence.load() + 1;
        int thrower = -1, consequence = -1;
        const auto is_earlier = [this](int rank, int than) {
            return than < 0 || page_->record(rank).thrown.load() < page_->record(than).thrown.load();
        };
        for (int r = 0; r < keeper_.workers(); ++r) {
            const auto& worker = job.workers()[index(r)];
            const bool is_killed_here = worker.status == 128 + SIGKILL && worker.why.empty() && worker.is_killed;
            if (phase(r) == WorkerPhase::Threw) {
                int& first = page_->record(r).is_transport.load() != 0 ? consequence : thrower;
                if (is_earlier(r, first)) first = r;
            } else if (is_lost(job, r) && !is_killed_here) {
                losses.push_back({r, worker.why.empty() ? cause_of(worker.status) : worker.why, step});
            }
        }
        if (thrower >= 0) return {Ending::Kind::Over, 1, failure_text(thrower)};
        if (losses.empty() && consequence >= 0) return {Ending::Kind::Over, 1, failure_text(consequence)};
        if (losses.empty() && !job.has_started()) return {Ending::Kind::NotStarted};
        if (was_cut_off_) losses.clear();  // they died of it
        if (losses.empty()) losses.push_back(lost_launcher(job));
        return {Ending::Kind::Lost, 0, {}, std::move(losses)};
    }

    Loss lost_launcher(const WorkerJob& job) const {
        return {-1, launcher_[0] + " or its proxy ended (code " + std::to_string(job.launcher_status()) + ")",
                page_->progress.sequence.load() + 1};
    }
    std::string failure_text(int rank) const {
        return "hvd: rank " + std::to_string(rank) + " of " + std::to_string(keeper_.workers()) +
               " failed, so this job ends: " + page_->record(rank).text;
    }
    std::string no_start(Seconds time) const {
        char text[96];
        std::snprintf(text, sizeof text, "for %.3g s, and rejoin_timeout is %.3g s", time.count(),
                      options_.rejoin_timeout.count());
        return "hvd: " + launcher_[0] + " could not start the workers " + text +
               ", so the job ends; see what it says, check the hosts, or name another in HVD_MPIEXEC";
    }

    LaunchOptions options_;
    MpiKind kind_;
    int launch_;
    std::vector<std::string> launcher_;
    SlotFile page_file_;
    ControlPage* page_;
    Keeper keeper_;
    SignalGuard signals_;
    std::vector<std::pair<int, Seconds>> stopped_;  // processes, and for how long
    Seconds looked_for_stopped_{0};
    bool has_killed_ = false, was_cut_off_ = false;  // in this life
};

/// Runs an elastic job whose workers are processes of MPI. Throws UsageError when the options make no sense.
inline int supervise(const LaunchOptions& options, int workers, MpiKind kind, int launch) {
    Supervisor supervisor{options, workers, kind, launch};
    return supervisor.run();
}

}  // namespace hvd::detail
