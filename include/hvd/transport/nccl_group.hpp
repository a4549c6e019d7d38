// NcclGroup: the NCCL communicator of a group of ranks, from its making to its end, and its stream. Needs NCCL.
#pragma once

#ifdef HVD_WITH_NCCL

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hvd/device/device_memory.hpp>
#include <hvd/transport/nccl_watch.hpp>
#include <hvd/transport/worker.hpp>

namespace hvd::detail {

inline std::string nccl_words(ncclResult_t code) {
    std::string text = ncclGetErrorString(code);
    const char* last = ncclGetLastError(nullptr);
    if (last != nullptr && *last != '\0') text += " (" + std::string{last} + ")";
    return text;
}

/// One rank's side. Used by one thread at a time, and by the thread that watches it. NCCL never makes a caller wait here: the
/// communicator is a non-blocking one, whose calls are asked again until they have been taken.
class NcclGroup {
public:
    NcclGroup(int device, int rank, int size, std::shared_ptr<Worker> worker)
        : device_{device}, rank_{rank}, size_{size}, worker_{std::move(worker)} {
        const device::Guard guard{device};
        stream_ = std::make_unique<device::Stream>();
    }
    NcclGroup(const NcclGroup&) = delete;
    NcclGroup& operator=(const NcclGroup&) = delete;
    ~NcclGroup() {
        watch_.stop();
        end();
    }

    int device() const { return device_; }
    int rank() const { return rank_; }
    int size() const { return size_; }

    bool is_connected() const { return state_ == State::Connected; }
    bool is_begun() const { return state_ != State::New; }

    /// Collective over the group, and returns at once; `is_settled()` then tells when all are there.
    void begin(const ncclUniqueId& id) {
        const std::scoped_lock lock{mutex_};
        const device::Guard guard{device_};
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        call("ncclCommInitRankConfig", [&] { return ncclCommInitRankConfig(&comm_, size_, id, rank_, &config); });
        state_ = State::Connecting;
    }

    /// NCCL has done what it was last asked for: the communicator stands, the operation is on its stream.
    bool is_settled() {
        const std::scoped_lock lock{mutex_};
        throw_failure();
        const device::Guard guard{device_};
        ncclResult_t code = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(comm_, &code);
        if (asked != ncclSuccess) code = asked;
        if (code == ncclInProgress) return false;
        if (code != ncclSuccess) fail(code);
        if (state_ == State::Connecting) {
            state_ = State::Connected;
            watch_.start(*this, *worker_);
        }
        return true;
    }

    /// Calls `f(comm, stream)` as one group of NCCL calls, behind what `after` has marked. `name` is for error texts.
    template <class F>
    void launch(const std::string& name, const std::vector<device::Event>& after, F&& f) {
        const std::scoped_lock lock{mutex_};
        throw_failure();
        const device::Guard guard{device_};
        name_ = name;
        for (const device::Event& event : after) event.hold_back(stream_->get());
        call("ncclGroupStart", [] { return ncclGroupStart(); });
        ncclResult_t first = ncclSuccess;
        const auto note = [&](ncclResult_t code) {
            if (first == ncclSuccess && code != ncclInProgress) first = code;
        };
        f(comm_, stream_->get(), note);
        note(ncclGroupEnd());
        if (first != ncclSuccess) fail(first);
    }

    /// Marks the end of what has been launched, for whoever waits, and for the watch.
    device::Event mark() {
        const std::scoped_lock lock{mutex_};
        const device::Guard guard{device_};
        device::Event event{events_, stream_->get()};
        watch_.add(event, name_);
        return event;
    }

    /// What the device's `stream` has been given so far.
    device::Event point_of(cudaStream_t stream) {
        const device::Guard guard{device_};
        return device::Event{events_, stream};
    }

    cudaStream_t stream() const { return stream_->get(); }

    /// The sum in which each rank's elements are first multiplied by `factor`.
    template <class Word>
    ncclRedOp_t scaled_sum(ncclDataType_t type, double factor, const Word& word) {
        const std::scoped_lock lock{mutex_};
        for (const Factor& f : factors_)
            if (f.type == type && f.factor == factor) return f.op;
        const device::Guard guard{device_};
        Word value = word;
        ncclRedOp_t op = ncclSum;
        call("ncclRedOpCreatePreMulSum",
             [&] { return ncclRedOpCreatePreMulSum(&op, &value, type, ncclScalarHostImmediate, comm_); });
        factors_.push_back({type, factor, op});
        return op;
    }

    /// Throws what has gone wrong, in the words of the first failure.
    void throw_failure() {
        const std::scoped_lock lock{mutex_};
        if (!failure_.empty()) throw TransportError{failure_};
    }

    /// Ends the communicator for the reason `cause`, so that what is queued comes to an end as well. For the watch.
    void give_up(const std::string& cause) {
        const std::scoped_lock lock{mutex_};
        if (failure_.empty()) failure_ = located(name_, rank_, size_, cause);
        abort();
    }

    /// An error that NCCL has met since, or nothing.
    std::string asynchronous_error() {
        const std::scoped_lock lock{mutex_};
        if (comm_ == nullptr) return {};
        ncclResult_t code = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(comm_, &code);
        if (asked != ncclSuccess) code = asked;
        return code == ncclSuccess || code == ncclInProgress ? std::string{} : reported(code);
    }

private:
    enum class State { New, Connecting, Connected };
    struct Factor {
        ncclDataType_t type;
        double factor;
        ncclRedOp_t op;
    };

    static std::string reported(ncclResult_t code) {
        return "NCCL reports: " + nccl_words(code) +
               "; the communicator is given up, so end the job, or let launch start it again";
    }

    template <class F>
    void call(const char* name, F&& f) {
        const ncclResult_t code = f();
        if (code == ncclSuccess || code == ncclInProgress) return;
        if (state_ == State::New) name_ = name;
        fail(code);
    }

    [[noreturn]] void fail(ncclResult_t code) {
        give_up(reported(code));
        throw TransportError{failure_};
    }

    void abort() {
        if (comm_ == nullptr) return;
        const device::Guard guard{device_};
        static_cast<void>(ncclCommAbort(std::exchange(comm_, nullptr)));
    }

    /// In peace when all has run; otherwise whoever is left ends what hangs.
    void end() {
        if (comm_ == nullptr) return;
        try {
            const device::Guard guard{device_};
            const bool is_idle = state_ == State::Connected && cudaStreamQuery(stream_->get()) == cudaSuccess;
            if (!is_idle) return abort();
            for (const Factor& f : factors_) static_cast<void>(ncclRedOpDestroy(f.op, comm_));
            static_cast<void>(ncclCommFinalize(comm_));
            // The others may be gone without a word, so this is no wait for ever.
            ncclResult_t code = ncclInProgress;
            const auto begin = Clock::now();
            while (ncclCommGetAsyncError(comm_, &code) == ncclSuccess && code == ncclInProgress &&
                   Clock::now() - begin < std::chrono::seconds{5})
                ::sched_yield();
            if (code != ncclSuccess) return abort();
            static_cast<void>(ncclCommDestroy(std::exchange(comm_, nullptr)));
        } catch (const Error&) {  // the device is gone, and all on it
        }
    }

    const int device_, rank_, size_;
    const std::shared_ptr<Worker> worker_;
    std::shared_ptr<device::EventPool> events_ = std::make_shared<device::EventPool>();
    std::unique_ptr<device::Stream> stream_;
    std::recursive_mutex mutex_;  // what follows
    ncclComm_t comm_ = nullptr;
    State state_ = State::New;
    std::vector<Factor> factors_;
    std::string name_ = "NCCL", failure_;
    NcclWatch watch_;
};

}  // namespace hvd::detail

#endif
