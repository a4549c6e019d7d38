// NcclWatch: looks after what is queued on a device while the host waits elsewhere, in cudaStreamSynchronize for example.
#pragma once

#ifdef HVD_WITH_NCCL

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <hvd/device/cuda_handles.hpp>
#include <hvd/transport/worker.hpp>

namespace hvd::detail {

/// A thread that gives a group up when NCCL has met an error, when the job ends, or when an operation takes longer than
/// stall_abort: a kernel that waits for a peer which is gone would otherwise never end. It sleeps while nothing is queued.
class NcclWatch {
public:
    NcclWatch() = default;
    NcclWatch(const NcclWatch&) = delete;
    NcclWatch& operator=(const NcclWatch&) = delete;
    ~NcclWatch() { stop(); }

    template <class Group>
    void start(Group& group, Worker& worker) {
        thread_ = std::thread{[this, &group, &worker] { look_after(group, worker); }};
    }
    void stop() {
        {
            const std::scoped_lock lock{mutex_};
            is_ending_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }

    void add(device::Event end, std::string name) {
        const std::scoped_lock lock{mutex_};
        queue_.push_back({std::move(end), std::move(name), Clock::now()});
        changed_.notify_all();
    }

private:
    struct Item {
        device::Event end;
        std::string name;
        Clock::time_point begin;
        bool warned = false;
    };

    template <class Group>
    void look_after(Group& group, Worker& worker) {
        std::unique_lock lock{mutex_};
        while (!is_ending_) {
            if (queue_.empty()) {
                changed_.wait(lock);
                continue;
            }
            Item item = queue_.front();
            lock.unlock();
            bool has_come = false;
            const std::string cause = look_at(item, has_come, group, worker);
            if (!cause.empty()) group.give_up(cause);
            lock.lock();
            if (!cause.empty()) {
                queue_.clear();
            } else if (has_come) {
                queue_.pop_front();
            } else {
                queue_.front().warned = item.warned;
                changed_.wait_for(lock, std::chrono::milliseconds{50}, [&] { return is_ending_; });
            }
        }
    }

    /// Why the group must be given up, or nothing.
    template <class Group>
    std::string look_at(Item& item, bool& has_come, Group& group, Worker& worker) {
        try {
            const device::Guard guard{group.device()};
            has_come = item.end.has_come();
            if (has_come) return {};
            worker.check();
        } catch (const Error& e) {
            return e.what();
        } catch (...) {
            return "the job is ending or goes on with other workers; leave what is under way";
        }
        if (std::string error = group.asynchronous_error(); !error.empty()) return error;
        const std::chrono::duration<double> waited = Clock::now() - item.begin;
        const auto seconds = std::to_string(static_cast<long>(waited.count() + 0.5)) + " s";
        if (worker.stall_abort.count() > 0 && waited >= worker.stall_abort)
            return "gave up after " + seconds + " on the device; a rank is late or gone";
        if (!item.warned && worker.stall_warning.count() > 0 && waited >= worker.stall_warning) {
            item.warned = true;
            std::fprintf(stderr, "hvd: %s on rank %d of %d has been on the device for %s; a rank is late or gone\n",
                         item.name.c_str(), group.rank(), group.size(), seconds.c_str());
        }
        return {};
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Item> queue_;
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace hvd::detail

#endif
