// Streams, events and the current device, each as an object that puts back or gives back what it took. Needs CUDA.
#pragma once

#ifdef HVD_WITH_CUDA

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <hvd/device/cuda_error.hpp>

namespace hvd::device {

/// Makes `device` the current one of this thread, and puts back the former at its end.
class Guard {
public:
    explicit Guard(int device) {
        check(cudaGetDevice(&before_), "cudaGetDevice");
        if (before_ != device) check(cudaSetDevice(device), "cudaSetDevice");
        changed_ = before_ != device;
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
        if (changed_) static_cast<void>(cudaSetDevice(before_));
    }

private:
    int before_ = 0;
    bool changed_ = false;
};

/// A stream of the current device which no other waits for, of high priority so that communication is not kept waiting.
class Stream {
public:
    Stream() {
        int least = 0, greatest = 0;
        check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
        check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    /// What is queued still runs to its end.
    ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

    cudaStream_t get() const { return stream_; }

private:
    cudaStream_t stream_ = nullptr;
};

/// A point in a stream. Events are used again, since making one costs more than recording it.
class EventPool : public std::enable_shared_from_this<EventPool> {
public:
    EventPool() = default;
    EventPool(const EventPool&) = delete;
    EventPool& operator=(const EventPool&) = delete;
    ~EventPool() {
        for (cudaEvent_t event : free_) static_cast<void>(cudaEventDestroy(event));
    }

    cudaEvent_t take() {
        {
            const std::scoped_lock lock{mutex_};
            if (!free_.empty()) {
                cudaEvent_t event = free_.back();
                free_.pop_back();
                return event;
            }
        }
        cudaEvent_t event = nullptr;
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        return event;
    }
    void give_back(cudaEvent_t event) {
        const std::scoped_lock lock{mutex_};
        free_.push_back(event);
    }

private:
    std::mutex mutex_;
    std::vector<cudaEvent_t> free_;
};

/// What a stream had queued when it was made. Copies mean the same point.
class Event {
public:
    Event() = default;
    /// Of the current device.
    Event(const std::shared_ptr<EventPool>& pool, cudaStream_t stream)
        : event_{pool->take(), [pool](cudaEvent_t event) { pool->give_back(event); }} {
        check(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
    }

    /// True once all of it has run, and for one that was never recorded. Throws what went wrong on the device.
    bool has_come() const {
        if (!event_) return true;
        const cudaError_t code = cudaEventQuery(event_.get());
        if (code == cudaErrorNotReady) return false;
        check(code, "cudaEventQuery");
        return true;
    }
    /// What `stream` is given from now on runs after it.
    void hold_back(cudaStream_t stream) const {
        if (event_) check(cudaStreamWaitEvent(stream, event_.get(), 0), "cudaStreamWaitEvent");
    }

private:
    std::shared_ptr<CUevent_st> event_;
};

}  // namespace hvd::device

#endif
