// FaultPoint: lets a worker die at a named place of the protocol of recovery, on purpose.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hvd/elastic/fault_point.hpp>

namespace hvd::testing {

namespace detail {

struct FaultPlan;

struct FaultBook {
    std::mutex mutex;
    std::vector<FaultPlan*> plans;
    bool records = false;
    std::vector<std::pair<std::string, int>> arrivals;

    static FaultBook& instance() {
        static FaultBook book;
        return book;
    }
};

struct FaultPlan {
    std::string point;
    int rank, time, signal;
    std::string token;
    int arrivals = 0;
    bool has_fired = false;

    /// Once per process, and once per token in all processes.
    bool fires(const std::string& at, int who) {
        if (has_fired || at != point || who != rank || ++arrivals != time) return false;
        return has_fired = token.empty() || ::unlink(token.c_str()) == 0;
    }
};

inline void arrive(const char* point, int rank) {
    int signal = -1;
    {
        FaultBook& book = FaultBook::instance();
        const std::scoped_lock lock{book.mutex};
        if (book.records) book.arrivals.emplace_back(point, rank);
        for (FaultPlan* plan : book.plans)
            if (plan->fires(point, rank)) signal = plan->signal;
    }
    if (signal == 0) hvd::detail::die_as_thread("died on purpose");
    if (signal > 0) ::raise(signal);
    if (signal < -1) ::_exit(-2 - signal);
}

}  // namespace detail

/// While it lives, worker `rank` dies when it comes to `point` for the `time`th time: with signal 0 as a thread, by leaving
/// without a word; otherwise the process raises the signal, or with -2 - n leaves by _exit(n). With a `token`, the name of a
/// file, only he dies who manages to remove it, so that a process that is started again does not die again. The places are
/// where hvd calls fault_point(); FaultRecorder lists those that a program comes to.
class FaultPoint {
public:
    FaultPoint(std::string point, int rank, int time = 1, int signal = 0, std::string token = {})
        : plan_{std::move(point), rank, time, signal, std::move(token)} {
        detail::FaultBook& book = detail::FaultBook::instance();
        const std::scoped_lock lock{book.mutex};
        book.plans.push_back(&plan_);
        hvd::detail::fault_hook.store(&detail::arrive, std::memory_order_release);
    }
    FaultPoint(const FaultPoint&) = delete;
    FaultPoint& operator=(const FaultPoint&) = delete;
    ~FaultPoint() {
        detail::FaultBook& book = detail::FaultBook::instance();
        const std::scoped_lock lock{book.mutex};
        std::erase(book.plans, &plan_);
    }
    bool has_fired() const {
        const std::scoped_lock lock{detail::FaultBook::instance().mutex};
        return plan_.has_fired;
    }

private:
    detail::FaultPlan plan_;
};

/// While it lives, writes down who comes to which place; one at a time.
class FaultRecorder {
public:
    FaultRecorder() {
        detail::FaultBook& book = detail::FaultBook::instance();
        const std::scoped_lock lock{book.mutex};
        book.records = true;
        book.arrivals.clear();
        hvd::detail::fault_hook.store(&detail::arrive, std::memory_order_release);
    }
    FaultRecorder(const FaultRecorder&) = delete;
    FaultRecorder& operator=(const FaultRecorder&) = delete;
    ~FaultRecorder() { detail::FaultBook::instance().records = false; }

    /// The places that `rank` came to, in order.
    std::vector<std::string> arrivals(int rank) const {
        detail::FaultBook& book = detail::FaultBook::instance();
        const std::scoped_lock lock{book.mutex};
        std::vector<std::string> points;
        for (const auto& [point, who] : book.arrivals)
            if (who == rank) points.push_back(point);
        return points;
    }
};

}  // namespace hvd::testing
