// Workers as threads of this process, with the launching thread as their supervisor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hvd/comm/communicator.hpp>
#include <hvd/comm/keep_state.hpp>
#include <hvd/elastic/keeper.hpp>
#include <hvd/transport/launch_options.hpp>
#include <hvd/transport/local.hpp>

namespace hvd::detail {

/// The words of the exception being handled.
inline std::string current_exception_text() {
    try {
        throw;
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

/// The last call on the world: a rank that has returned from the body is found out by those that still call something.
template <class T, class A>
void leave_together(const Communicator<T, A>& world) {
    if (!world.options().checks || world.size() == 1) return;
    const Channel<T> channel = world.context().next_channel();
    const auto leave =
        agree(world.context(), channel, std::move(Call::of("nothing").words("any more, having left the body")));
    complete(world, *leave, "the end of the job");
}

/// Which threads have ended, for the supervisor that waits for all of them.
class Finishers {
public:
    explicit Finishers(int count) : running_(static_cast<std::size_t>(count), 1) {}

    void finish(int rank) {
        const std::scoped_lock lock{mutex_};
        running_[static_cast<std::size_t>(rank)] = 0;
        changed_.notify_all();
    }

    /// Returns when all have ended. Ends the process when some have not `deadline` after the job has failed or lost a worker:
    /// a thread cannot be stopped from outside.
    void wait(LocalJob& job, std::chrono::duration<double> deadline) {
        std::unique_lock lock{mutex_};
        std::chrono::duration<double> since_failure{0};
        constexpr std::chrono::milliseconds look{100};
        while (!running().empty()) {
            changed_.wait_for(lock, look);
            if ((!job.has_failed() && !job.has_changed()) || deadline.count() <= 0) continue;
            since_failure += look;
            if (since_failure < deadline || running().empty()) continue;
            std::fprintf(stderr, "%s\nhvd: %s did not come to a call of hvd after that, so the process ends\n",
                         job.end_text().c_str(), rank_list(running()).c_str());
            std::_Exit(1);
        }
    }

private:
    std::vector<int> running() const {
        std::vector<int> ranks;
        for (std::size_t r = 0; r < running_.size(); ++r)
            if (running_[r] != 0) ranks.push_back(static_cast<int>(r));
        return ranks;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<char> running_;
};

/// While one exists, a worker that calls std::exit ends the process with a word and code 1: the others have not finished.
class ExitGuard {
public:
    ExitGuard() {
        static const int registered = std::atexit([] {
            if (jobs().load() == 0) return;
            std::fprintf(stderr, "hvd: a worker called exit before the job was done; return from the body, or throw\n");
            std::_Exit(1);
        });
        static_cast<void>(registered);
        ++jobs();
    }
    ~ExitGuard() { --jobs(); }
    ExitGuard(const ExitGuard&) = delete;
    ExitGuard& operator=(const ExitGuard&) = delete;

private:
    static std::atomic<int>& jobs() {
        static std::atomic<int> count = 0;
        return count;
    }
};

/// One start of all workers: with what they start, and what became of them.
struct LocalLife {
    explicit LocalLife(int workers) : group{std::make_shared<LocalGroup>(workers)} {}

    std::shared_ptr<LocalGroup> group;
    std::shared_ptr<LocalJob> job = std::make_shared<LocalJob>();
    std::atomic<int> returned = 0;  // from the body
    Progress* progress = nullptr;

    int size() const { return group->size(); }
};

/// Tells the job of the death of the worker on this thread.
class LocalDeath final : public DeathNotice {
public:
    LocalDeath(LocalJob& job, int rank) : job_{job}, rank_{rank} { death_notice = this; }
    LocalDeath(const LocalDeath&) = delete;
    LocalDeath& operator=(const LocalDeath&) = delete;
    ~LocalDeath() { death_notice = nullptr; }
    void dies(const char* cause) override { job_.lose(rank_, cause); }

private:
    LocalJob& job_;
    int rank_;
};

/// The body on one thread. Whatever it throws ends the job, but for the death of a worker of an elastic one.
template <class A, class F>
void run_local_worker(LocalLife& life, Keeper& keeper, int rank, const LaunchOptions& options, F& body) {
    const int size = life.size();
    const int per_node = options.ranks_per_node > 0 ? options.ranks_per_node : size;
    std::shared_ptr<LocalWorker> worker;
    LocalDeath death{*life.job, rank};
    try {
        worker = std::make_shared<LocalWorker>(life.job);
        worker->share_cores(size, usable_cores());
        Communicator<Local, A> world{Local{life.group, worker, rank, Topology::blocks(rank, size, per_node)}, A{},
                                     CommunicatorOptions{options.checks}};
        if (keeper.store()) {
            StateSetting setting = keeper.setting(rank);
            if (rank == 0) setting.committed = [&life](std::uint64_t number) { life.progress->committed(number); };
            tell_of_recovery(options, setting);
            keep_state(world, std::move(setting));
        }
        fault_point("body: before it", rank);
        body(world);
        ++life.returned;
        fault_point("body: after it", rank);
        leave_together(world);
    } catch (const WorldChanged&) {
    } catch (const WorkerDeath&) {
    } catch (const Error&) {  // often the consequence of a death, when somebody unwinds
        if (!life.job->has_changed()) life.job->fail(rank, current_exception_text());
    } catch (...) {
        life.job->fail(rank, current_exception_text());
    }
    if (worker) worker->clear();  // operations that outlive their callers refer to it
}

template <class A, class F>
int launch_local(int workers, const LaunchOptions& options, F& body) {
    const ExitGuard guard;
    Progress progress{};
    Keeper keeper{options, workers, progress};
    for (;;) {
        keeper.begin_life();
        LocalLife life{keeper.workers()};
        life.progress = &progress;
        Finishers finishers{life.size()};
        std::vector<std::thread> threads;
        for (int rank = 0; rank < life.size(); ++rank) {
            threads.emplace_back([&, rank] {
                run_local_worker<A>(life, keeper, rank, options, body);
                finishers.finish(rank);
            });
        }
        finishers.wait(*life.job, options.deadline);
        for (std::thread& thread : threads) thread.join();

        std::string sentence;
        if (life.job->has_failed()) {
            sentence = life.job->failure_text();
        } else if (life.job->has_changed() && life.returned < life.size()) {
            const std::uint64_t step = progress.sequence.load() + 1;
            std::vector<Loss> losses;
            for (const auto& [rank, cause] : life.job->losses()) losses.push_back({rank, cause, step});
            sentence = keeper.end_life(losses);
            if (sentence.empty()) continue;
        }
        if (!sentence.empty()) std::fprintf(stderr, "%s\n", sentence.c_str());
        return keeper.end_job(sentence.empty() ? 0 : 1);
    }
}

}  // namespace hvd::detail
