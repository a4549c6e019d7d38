// Ends a test program that has been silent for too long: no test case begun or ended and no assertion made.
// The limit is 60 s, or HVD_TEST_SILENCE seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace hvd_test {

class Watchdog {
public:
    // `bite` is called, once, from the watchdog's own thread with a sentence about what went silent.
    explicit Watchdog(std::function<void(const std::string&)> bite) : bite_{std::move(bite)} {
        if (const char* text = std::getenv("HVD_TEST_SILENCE")) limit_ = std::chrono::duration<double>{std::atof(text)};
        thread_ = std::thread{[this] { watch(); }};
    }
    ~Watchdog() {
        {
            std::lock_guard lock{mutex_};
            ended_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // Something happened; callable from any thread.
    void alive() { seen_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed); }

    // What the program does from here on; `patience` multiplies the limit meanwhile.
    void enter(std::string activity, double patience = 1) {
        std::lock_guard lock{mutex_};
        activity_ = std::move(activity);
        patience_ = patience;
        alive();
    }

    std::string activity() {
        std::lock_guard lock{mutex_};
        return activity_;
    }

private:
    using clock = std::chrono::steady_clock;

    void watch() {
        std::unique_lock lock{mutex_};
        while (!ended_) {
            changed_.wait_for(lock, limit_ / 20);
            const auto silence =
                clock::now().time_since_epoch() - clock::duration{seen_.load(std::memory_order_relaxed)};
            if (ended_ || silence < limit_ * patience_) continue;
            const std::string text = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(silence).count()) +
                                     " s of silence in " + activity_;
            lock.unlock();
            bite_(text);
            return;
        }
    }

    std::function<void(const std::string&)> bite_;
    std::chrono::duration<double> limit_{60};
    std::atomic<clock::rep> seen_{clock::now().time_since_epoch().count()};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string activity_ = "the start of the program";
    double patience_ = 1;
    bool ended_ = false;
    std::thread thread_;
};

// For a test that computes for long without an assertion.
void alive();

}  // namespace hvd_test
