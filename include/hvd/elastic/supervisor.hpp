// The supervisor: the process that the user started, which starts the workers and starts them again when one dies.
#pragma once

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hvd/elastic/left_memory.hpp>
#include <hvd/elastic/members.hpp>
#include <hvd/elastic/signal_guard.hpp>
#include <hvd/elastic/silence_watch.hpp>
#include <hvd/elastic/worker_job.hpp>

namespace hvd::detail {

/// HVD_ELASTIC_ENGINE=restart has the job started again also where the MPI could go on in place. Throws UsageError.
inline bool is_engine_in_place() {
    const char* text = std::getenv("HVD_ELASTIC_ENGINE");
    const std::string engine = text != nullptr ? text : "in_place";
    if (engine != "in_place" && engine != "restart")
        throw UsageError{"hvd: the environment variable HVD_ELASTIC_ENGINE is '" + engine +
                         "'; give in_place or restart"};
    return engine == "in_place";
}

class Supervisor {
public:
    /// `launch` is the how manieth of the program's. Throws UsageError for options that make no sense and when there is no
    /// mpiexec, TransportError without memory.
    Supervisor(const LaunchOptions& options, int workers, MpiKind kind, int launch)
        : options_{options},
          kind_{kind},
          is_in_place_{kind == MpiKind::OpenMpiUlfm && is_engine_in_place()},
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
            say_that_it_goes_on();
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

    /// Of new processes.
    void begin_life() {
        std::vector<int> records(static_cast<std::size_t>(keeper_.workers()));
        std::iota(records.begin(), records.end(), 0);
        members_.assign(std::move(records));
        page_->clear_records();
        page_->newcomers = 0;
        prepare_life();
        page_->wanted.store(page_->life);
        silence_.clear();
        has_killed_ = was_cut_off_ = false;
    }

    /// For the members, who may wait for it.
    void prepare_life() {
        keeper_.begin_life();
        page_->life = keeper_.life();
        page_->workers = keeper_.workers();
        page_->has_state = keeper_.newest() ? 1 : 0;
        if (keeper_.newest()) page_->newest = *keeper_.newest();
        members_.take_places(keeper_.recovery().origins());
        page_->ready.store(page_->life, std::memory_order_release);
    }

    /// Whether those that are left can go on as they are: all have a part in the job, and none has failed.
    bool can_go_on(WorkerJob& job) const {
        if (!is_in_place_ || members_.is_anybody_missing()) return false;
        int left = 0;
        for (const int r : members_) {
            if (members_.is_lost(job, r) && members_.phase(r) != WorkerPhase::Threw) continue;
            if (members_.phase(r) < WorkerPhase::Running || members_.phase(r) > WorkerPhase::Leaving) return false;
            ++left;
        }
        return left > 0 && (left >= options_.min_workers || options_.on_failure == OnFailure::Shrink);
    }

    /// Calls all that are left out of this life, and begins the next when they have come and nobody writes state any more.
    /// Returns the sentence with which the job ends, or nothing.
    std::string go_on(WorkerJob& job) {
        page_->wanted.store(keeper_.life() + 1);
        std::vector<Loss> losses;
        std::vector<int> left;
        for (const int r : members_) {
            if (members_.is_lost(job, r)) {
                losses.push_back(members_.loss(job, r));
                job.let_go(r);
            } else {
                left.push_back(r);
            }
        }
        if (std::any_of(left.begin(), left.end(), [this](int r) { return members_.phase(r) != WorkerPhase::Waiting; }))
            return {};
        std::string sentence = losses.empty() ? std::string{} : keeper_.end_life(losses, true);
        for (const Loss& l : losses) say("hvd: " + l.text());
        if (!sentence.empty()) return sentence;
        members_.assign(std::move(left));
        page_->newcomers = 0;
        prepare_life();
        say_that_it_goes_on();
        return {};
    }

    /// Fewer take part than should.
    bool is_short() const {
        return is_in_place_ && options_.on_failure == OnFailure::Replace && keeper_.workers() < keeper_.first_workers();
    }
    /// Those who are gone can be replaced: the others have come through.
    bool can_grow(WorkerJob& job) const {
        return is_short() && keeper_.has_committed() && !members_.has_loss(job) && members_.all([this](int r) {
            return members_.phase(r) == WorkerPhase::Running || members_.phase(r) == WorkerPhase::Waiting;
        });
    }

    /// Calls all out of this life, and begins the next with as many more as are gone, when they have come. Returns whether it has.
    bool grow(WorkerJob& job) {
        page_->wanted.store(keeper_.life() + 1);
        if (!members_.all([this](int r) { return members_.phase(r) == WorkerPhase::Waiting; })) return false;
        const int more = keeper_.first_workers() - keeper_.workers();
        keeper_.gain(more);
        for (int r = 0; static_cast<int>(members_.size()) < keeper_.workers(); ++r) {
            if (members_.has(r)) continue;
            members_.add(r);
            page_->clear(page_->record(r));
            job.expect(r);
        }
        page_->newcomers = more;
        prepare_life();
        say_that_it_goes_on();
        return true;
    }

    void say_that_it_goes_on() {
        const std::uint64_t step = keeper_.newest() ? keeper_.newest()->sequence : 0;
        say("hvd: the job goes on with " + std::to_string(keeper_.workers()) +
            (keeper_.workers() == 1 ? " worker" : " workers") +
            (step == 0 ? " from its beginning" : " from the end of step " + std::to_string(step)));
    }

    void end(WorkerJob& job) {
        has_killed_ = true;
        was_cut_off_ = job.is_cut_off();
        job.end(*page_);
    }

    Ending live() {
        begin_life();
        const SupervisorAddress address{static_cast<int>(::getpid()), page_file_.number(), launch_, keeper_.life(),
                                        is_in_place_ ? 1 : 0};
        WorkerJob job{launcher_, kind_, keeper_.workers(), address.text(), signals_.before()};
        constexpr auto never = Clock::time_point::max();
        auto until = never;  // a worker has died, and others may have died with it
        std::optional<Clock::time_point> leaving_until;
        int ending_signal = 0;
        std::snprintf(page_->reports, sizeof page_->reports, "%s", job.reports_path().c_str());
        std::snprintf(page_->hold, sizeof page_->hold, "%s", job.hold_path().c_str());
        auto start = Clock::now();
        auto looked = start;
        for (;;) {
            pollfd files[] = {
                {job.reports(), POLLIN, 0}, {signals_.file(), POLLIN, 0}, {job.launcher_end(), POLLIN, 0}};
            ::poll(files, 3,
                   members_.is_changing()                                                ? 1
                   : until != never || leaving_until || ending_signal != 0 || is_short() ? 5
                                                                                         : silence_.look_every());
            const bool launcher_has_ended = job.has_launcher_ended();
            job.take_reports();
            const auto now = Clock::now();
            if (const int signal = forward_signals(job); signal != 0) {
                if (ending_signal != 0) until = now;
                else until = now + std::chrono::seconds{5};
                ending_signal = signal;
            }
            job.look_for_dead_shells();
            silence_.look(job, *page_, members_, Seconds{now - looked});
            looked = now;
            if (members_.is_finished(job) && job.is_cut_off()) {  // whose last words are lost: they end once more
                end(job);
                return {Ending::Kind::Lost, 0, {}, {lost_launcher(job)}};
            }
            if (members_.is_finished(job)) return finish(job);
            if (launcher_has_ended) {
                end(job);
                return ending_signal != 0 ? ended_by(ending_signal) : judge(job);
            }
            if (ending_signal == 0 && !job.have_all_started() && now - start > patience_at_start()) {
                end(job);
                return {Ending::Kind::NotStarted};
            }
            if (members_.have_all_left()) {
                if (!members_.has_loss(job)) continue;  // or some may wait for others in the end of MPI
                if (!leaving_until) leaving_until = now + std::chrono::seconds{1};
                if (now > *leaving_until) end_the_stuck(job);
                continue;
            }
            if (ending_signal != 0) {
                if (now < until && !members_.has_nobody_left(job)) continue;
                end(job);
                return ended_by(ending_signal);
            }
            if (can_grow(job)) {
                if (grow(job)) start = now;
                continue;
            }
            if (!members_.has_loss(job) && !members_.is_anybody_waiting()) continue;
            // What is thrown as the consequence of another's end may be noticed before its cause.
            if (until == never) until = now + std::chrono::milliseconds{members_.has_only_consequences(job) ? 500 : 10};
            else if (!members_.has_only_consequences(job) && until > now + std::chrono::milliseconds{10})
                until = now + std::chrono::milliseconds{10};
            if (now < until) continue;
            if (can_go_on(job)) {
                const std::string sentence = go_on(job);
                if (sentence.empty() && members_.is_changing()) continue;
                until = never;
                if (sentence.empty()) continue;
                end(job);
                return {Ending::Kind::Over, 1, sentence};
            }
            end(job);
            return members_.have_all_left() ? finish(job) : judge(job);
        }
    }

    /// For a launcher that neither starts all workers nor ends.
    Seconds patience_at_start() const { return std::max<Seconds>(options_.rejoin_timeout, std::chrono::seconds{10}); }

    /// Returns the one by which the job is to end, or 0.
    int forward_signals(WorkerJob& job) {
        int end = 0;
        while (const int signal = signals_.take()) {
            if (signal != SIGUSR1 && signal != SIGUSR2) end = signal;
            for (const int r : members_)
                if (const int pid = page_->record(r).pid.load();
                    pid > 0 && !job.workers()[static_cast<std::size_t>(r)].ended)
                    ::kill(pid, signal);
        }
        return end;
    }
    Ending ended_by(int signal) const {
        const char* name = ::sigabbrev_np(signal);
        return {Ending::Kind::Over, 128 + signal,
                std::string{"hvd: the supervisor got SIG"} + (name != nullptr ? name : "NAL") + ", so the job ends"};
    }

    void end_the_stuck(WorkerJob& job) {
        for (const int r : members_)
            if (members_.phase(r) != WorkerPhase::Returned && !job.workers()[static_cast<std::size_t>(r)].ended)
                job.kill_worker(r);
    }
    /// The code is that with which the program of a worker ended, if it ended by itself.
    Ending finish(WorkerJob& job) {
        if (members_.has_loss(job)) end(job);
        else job.wait_for_launcher(std::max(options_.deadline, Seconds{1}));
        Ending ending;
        for (const int r : members_)
            if (const int code = job.workers()[static_cast<std::size_t>(r)].status;
                code <= 128 && members_.phase(r) == WorkerPhase::Exiting)
                ending.code = std::max(ending.code, code);
        return ending;
    }

    /// After the end of all: whether the job is over, or who was lost.
    Ending judge(WorkerJob& job) const {
        std::vector<Loss> losses;
        int thrower = -1, consequence = -1;
        const auto is_earlier = [this](int rank, int than) {
            return than < 0 || page_->record(rank).thrown.load() < page_->record(than).thrown.load();
        };
        for (const int r : members_) {
            const auto& worker = job.workers()[static_cast<std::size_t>(r)];
            const bool is_killed_here = worker.status == 128 + SIGKILL && worker.why.empty() && worker.is_killed;
            if (members_.phase(r) == WorkerPhase::Threw) {
                int& first = page_->record(r).is_transport.load() != 0 ? consequence : thrower;
                if (is_earlier(r, first)) first = r;
            } else if (members_.is_lost(job, r) && !is_killed_here) {
                losses.push_back(members_.loss(job, r));
            }
        }
        if (thrower >= 0) return {Ending::Kind::Over, 1, members_.failure_text(thrower)};
        if (losses.empty() && consequence >= 0 && members_.is_anybody_missing())
            losses.push_back({-1, std::string{"a replacement could not join: "} + page_->record(consequence).text,
                              page_->progress.sequence.load() + 1});
        if (losses.empty() && consequence >= 0) return {Ending::Kind::Over, 1, members_.failure_text(consequence)};
        if (losses.empty() && !job.has_started()) return {Ending::Kind::NotStarted};
        if (was_cut_off_) losses.clear();  // they died of it
        if (losses.empty()) losses.push_back(lost_launcher(job));
        return {Ending::Kind::Lost, 0, {}, std::move(losses)};
    }

    Loss lost_launcher(const WorkerJob& job) const {
        return {-1, launcher_[0] + " or its proxy ended (code " + std::to_string(job.launcher_status()) + ")",
                page_->progress.sequence.load() + 1};
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
    bool is_in_place_;
    int launch_;
    std::vector<std::string> launcher_;
    SlotFile page_file_;
    ControlPage* page_;
    Keeper keeper_;
    SignalGuard signals_;
    Members members_{*page_};
    SilenceWatch silence_{options_.deadline};
    bool has_killed_ = false, was_cut_off_ = false;  // in this life
};

/// Runs an elastic job whose workers are processes of MPI. Throws UsageError when the options make no sense.
inline int supervise(const LaunchOptions& options, int workers, MpiKind kind, int launch) {
    Supervisor supervisor{options, workers, kind, launch};
    return supervisor.run();
}

}  // namespace hvd::detail
