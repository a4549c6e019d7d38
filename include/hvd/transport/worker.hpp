// The worker: one rank's side of everything that is under way, and how it waits.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/transport/environment.hpp>
#include <hvd/transport/operation.hpp>
#include <hvd/transport/shared_region.hpp>

namespace hvd::detail {

using Clock = std::chrono::steady_clock;

/// How a wait passes the time: first it spins, then it gives the core to whoever can use it.
class Backoff {
public:
    explicit Backoff(unsigned spins) : spins_{spins} {}

    void pause() {
        if (++count_ < spins_) {
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        } else {
            ::sched_yield();
        }
    }

private:
    unsigned count_ = 0, spins_;
};

/// The cores that this process may use.
inline int usable_cores() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
    return CPU_COUNT(&cores);
}

/// A number that nobody else on this machine draws.
inline std::uint64_t random_id() {
    std::uint64_t id = 0;
    if (::getentropy(&id, sizeof id) != 0) id = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
    return id;
}

/// One rank's list of asynchronous operations, the way out of its waits, and its patience. A transport owns one and
/// shares it with the transports split from it, so that any wait makes progress on all operations of the worker.
class Worker {
public:
    Worker() = default;
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    virtual ~Worker() = default;

    /// Throws when the job is ending; called in every turn of every wait and at the start of every call.
    virtual void check() {}

    void add(std::shared_ptr<Operation> operation) {
        const std::scoped_lock lock{mutex_};
        operations_.push_back(std::move(operation));
        pending_.store(operations_.size(), std::memory_order_release);
    }

    /// Lets go of all operations, at the end of the worker.
    void clear() {
        std::vector<std::shared_ptr<Operation>> operations;
        const std::scoped_lock lock{mutex_};
        operations.swap(operations_);
        pending_.store(0, std::memory_order_release);
    }

    /// Advances the asynchronous operations, each of which keeps its own failure for whoever waits for it.
    void progress() {
        if (pending_.load(std::memory_order_acquire) == 0) return;
        const std::unique_lock lock{mutex_, std::try_to_lock};
        if (!lock || advancing_) return;
        advancing_ = true;
        for (std::size_t i = 0; i < operations_.size();) {
            const auto operation = operations_[i];
            if (operation->advance()) operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(i));
            else ++i;
        }
        advancing_ = false;
        pending_.store(operations_.size(), std::memory_order_release);
    }

    /// Tells this worker from all others of the machine.
    std::uint64_t id() const { return id_; }

    /// Memory that this worker shares with others, so that buffers in it are known by their address.
    template <class Region>
    void add_region(const std::shared_ptr<Region>& region) {
        const std::scoped_lock lock{mutex_};
        std::erase_if(regions_, [](const auto& r) { return r.expired(); });
        regions_.push_back(region);
    }
    template <class Predicate>
    std::shared_ptr<SharedRegion> find_region(Predicate&& matches) {
        const std::scoped_lock lock{mutex_};
        for (const auto& weak : regions_)
            if (auto region = weak.lock(); region && matches(*region)) return region;
        return nullptr;
    }

    /// A thread of this worker has been waiting for long (250 ms), and so will not submit anything for now.
    bool is_blocked() const { return blocked_.load(std::memory_order_relaxed) > 0; }

    /// `workers` share `cores`: when each can have its own, waits spin longer before they yield.
    void share_cores(int workers, int cores) { spins_ = workers <= cores ? 4096 : 32; }

    /// Calls `poll()` until it returns true. `describe()` says what is waited for: "allreduce on rank 0 of 4".
    /// After `stall_warning` a warning names it on stderr; after `stall_abort` (0: never) StallError is thrown.
    template <class Poll, class Describe>
    void wait_until(Poll&& poll, Describe&& describe) {
        Backoff backoff{spins_};
        Patience patience{*this};
        check();
        for (unsigned turn = 1; !poll(); ++turn) {
            check();
            progress();
            backoff.pause();
            if (turn % 256 == 0) patience.look_at_clock(describe);
        }
    }

    std::chrono::duration<double> stall_warning = stall_warning_from_environment();
    std::chrono::duration<double> stall_abort = stall_abort_from_environment();

private:
    /// How long one wait has taken so far. It begins at the first look, so that short waits never ask for the time.
    struct Patience {
        Worker& worker;
        Clock::time_point began{};
        bool warned = false, is_blocked = false;

        ~Patience() {
            if (is_blocked) worker.blocked_.fetch_sub(1, std::memory_order_relaxed);
        }

        template <class Describe>
        void look_at_clock(Describe& describe) {
            const auto now = Clock::now();
            if (began == Clock::time_point{}) began = now;
            const std::chrono::duration<double> waited = now - began;
            if (!is_blocked && waited >= std::chrono::milliseconds{250}) {
                is_blocked = true;
                worker.blocked_.fetch_add(1, std::memory_order_relaxed);
            }
            if (worker.stall_abort.count() > 0 && waited >= worker.stall_abort) {
                throw StallError{"hvd: " + describe() + " gave up after " + whole_seconds(waited) +
                                 "; a rank is late, gone, or made another call"};
            }
            if (!warned && worker.stall_warning.count() > 0 && waited >= worker.stall_warning) {
                warned = true;
                std::fprintf(stderr, "hvd: %s has waited %s; a rank is late, gone, or made another call\n",
                             describe().c_str(), whole_seconds(waited).c_str());
            }
        }

        static std::string whole_seconds(std::chrono::duration<double> time) {
            return std::to_string(static_cast<long>(time.count() + 0.5)) + " s";
        }
    };

    unsigned spins_ = 32;
    std::atomic<int> blocked_ = 0;
    std::uint64_t id_ = random_id();
    std::vector<std::weak_ptr<SharedRegion>> regions_;
    std::recursive_mutex mutex_;
    std::vector<std::shared_ptr<Operation>> operations_;
    std::atomic<std::size_t> pending_ = 0;  // so that a wait with nothing else under way takes no lock
    bool advancing_ = false;
};

}  // namespace hvd::detail
