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
#include <hvd/comm/launch_options.hpp>
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

    /// Returns when all have ended. Ends the process when some have not `deadline` after the job has failed: a thread
    /// cannot be stopped from outside.
    void wait(const LocalJob& job, std::chrono::duration<double> deadline) {
        std::unique_lock lock{mutex_};
        std::chrono::duration<double> since_failure{0};
        constexpr std::chrono::milliseconds look{100};
        while (!running().empty()) {
            changed_.wait_for(lock, look);
            if (!job.has_failed() || deadline.count() <= 0) continue;
            since_failure += look;
            if (since_failure < deadline || running().empty()) continue;
            std::fprintf(stderr, "%s\nhvd: %s did not come to a call of hvd after that, so the process ends\n",
                         job.failure_text().c_str(), rank_list(running()).c_str());
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

/// The body on one thread. Whatever it throws ends the job.
template <class A, class F>
void run_local_worker(const std::shared_ptr<LocalGroup>& group, const std::shared_ptr<LocalJob>& job, int rank,
                      const LaunchOptions& options, F& body) {
    const int size = group->size();
    const int per_node = options.ranks_per_node > 0 ? options.ranks_per_node : size;
    std::shared_ptr<LocalWorker> worker;
    try {
        worker = std::make_shared<LocalWorker>(job);
        worker->share_cores(size, usable_cores());
        Communicator<Local, A> world{Local{group, worker, rank, Topology::blocks(rank, size, per_node)}, A{},
                                     CommunicatorOptions{options.checks}};
        body(world);
        leave_together(world);
    } catch (...) {
        job->fail(rank, current_exception_text());
    }
    if (worker) worker->clear();  // operations that outlive their callers refer to it
}

template <class A, class F>
int launch_local(int workers, const LaunchOptions& options, F& body) {
    const ExitGuard guard;
    const auto job = std::make_shared<LocalJob>();
    const auto group = std::make_shared<LocalGroup>(workers);
    Finishers finishers{workers};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < workers; ++rank) {
        threads.emplace_back([&, rank] {
            run_local_worker<A>(group, job, rank, options, body);
            finishers.finish(rank);
        });
    }
    finishers.wait(*job, options.deadline);
    for (std::thread& thread : threads) thread.join();
    if (!job->has_failed()) return 0;
    std::fprintf(stderr, "%s\n", job->failure_text().c_str());
    return 1;
}

}  // namespace hvd::detail
