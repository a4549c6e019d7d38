// The CUDA runtime's part of the test double: see test_double.hpp.
#include "test_double.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// Whether an event's place in a stream has been reached.
struct Point {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_reached = false;
    std::chrono::steady_clock::time_point when{};

    void reach() {
        const std::scoped_lock lock{mutex};
        is_reached = true;
        when = std::chrono::steady_clock::now();
        changed.notify_all();
    }
    void wait() {
        std::unique_lock lock{mutex};
        changed.wait(lock, [&] { return is_reached; });
    }
    bool look() {
        const std::scoped_lock lock{mutex};
        return is_reached;
    }
};

void delay_a_little();

}  // namespace

/// Does what it is given in order, in a thread of its own.
struct CUstream_st {
    CUstream_st() : thread_{[this] { run(); }} {}
    ~CUstream_st() {
        {
            const std::scoped_lock lock{mutex_};
            is_ending_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    void give(std::function<void()> work) {
        const std::scoped_lock lock{mutex_};
        queue_.push_back(std::move(work));
        changed_.notify_all();
    }
    bool is_idle() {
        const std::scoped_lock lock{mutex_};
        return queue_.empty();
    }
    void wait() {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, [&] { return queue_.empty(); });
    }

private:
    void run() {
        std::unique_lock lock{mutex_};
        for (;;) {
            changed_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
            if (queue_.empty()) return;
            const std::function<void()> work = queue_.front();
            lock.unlock();
            delay_a_little();
            work();
            lock.lock();
            queue_.pop_front();
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    bool is_ending_ = false;
    std::thread thread_;
};

struct CUevent_st {
    std::shared_ptr<Point> point;
};

namespace {

/// All that the process has; never destroyed, since its streams' threads may outlive main.
struct World {
    std::mutex mutex;
    int devices = 8;
    unsigned seed = 0;
    int most_delay = 0;
    std::map<std::string, int> calls, failing;
    std::map<std::string, int> failure;
    std::map<int, int> asynchronous;
    std::map<std::pair<int, int>, cudaStream_t> defaults;  // of a device; second: unused
    std::map<const std::byte*, std::size_t> device_memory, pinned_memory;
    std::vector<cudaStream_t> streams;
    int events = 0, communicators = 0;
};

World& world() {
    static World* const the_world = [] {
        std::fprintf(stderr, "test double of CUDA and NCCL: no GPU is used\n");
        return new World;
    }();
    return *the_world;
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t result(cudaError_t code) {
    if (code != cudaSuccess && code != cudaErrorNotReady) last_error = code;
    return code;
}

/// Returns from the function when a test has asked for a failure of it.
#define ENTER(function) \
    if (const auto code = hvd_test_double::enter(#function)) return result(static_cast<cudaError_t>(*code))

void delay_a_little() {
    int most = 0;
    unsigned draw = 0;
    {
        const std::scoped_lock lock{world().mutex};
        most = world().most_delay;
        if (most == 0) return;
        world().seed = world().seed * 1664525u + 1013904223u;
        draw = world().seed >> 8;
    }
    std::this_thread::sleep_for(std::chrono::microseconds{draw % static_cast<unsigned>(most + 1)});
}

cudaStream_t stream_of(cudaStream_t stream) {
    if (stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread) return stream;
    const std::scoped_lock lock{world().mutex};
    cudaStream_t& known = world().defaults[{current_device, 0}];
    if (known == nullptr) known = new CUstream_st;
    return known;
}

bool contains(const std::map<const std::byte*, std::size_t>& blocks, const void* begin, std::size_t bytes) {
    const auto* at = static_cast<const std::byte*>(begin);
    auto next = blocks.upper_bound(at);
    if (next == blocks.begin()) return false;
    --next;
    return at + bytes <= next->first + next->second;
}

/// A copy from or to a place that nobody has allocated on the device is only right when it is host memory, which the double
/// cannot tell; one that begins in device memory must end there.
bool is_in_range(const void* begin, std::size_t bytes) {
    const std::scoped_lock lock{world().mutex};
    const auto& blocks = world().device_memory;
    return !contains(blocks, begin, 1) || contains(blocks, begin, bytes);
}

cudaError_t allocate(std::map<const std::byte*, std::size_t>& blocks, void** memory, std::size_t bytes) {
    *memory = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
    if (*memory == nullptr) return result(cudaErrorMemoryAllocation);
    std::memset(*memory, 0xDD, bytes);
    const std::scoped_lock lock{world().mutex};
    blocks[static_cast<std::byte*>(*memory)] = bytes;
    return cudaSuccess;
}

cudaError_t release(std::map<const std::byte*, std::size_t>& blocks, void* memory) {
    if (memory == nullptr) return cudaSuccess;
    {
        const std::scoped_lock lock{world().mutex};
        const auto found = blocks.find(static_cast<std::byte*>(memory));
        if (found == blocks.end()) return result(cudaErrorInvalidValue);
        std::memset(memory, 0xDD, found->second);
        blocks.erase(found);
    }
    std::free(memory);
    return cudaSuccess;
}

void wait_for_all_streams() {
    std::vector<cudaStream_t> streams;
    {
        const std::scoped_lock lock{world().mutex};
        for (const auto& [device, stream] : world().defaults) streams.push_back(stream);
    }
    for (cudaStream_t stream : streams) stream->wait();
}

}  // namespace

namespace hvd_test_double {

void set_devices(int count) {
    const std::scoped_lock lock{world().mutex};
    world().devices = count;
}
void delay(unsigned seed, int most_microseconds) {
    const std::scoped_lock lock{world().mutex};
    world().seed = seed;
    world().most_delay = most_microseconds;
}
void fail(const std::string& function, int nth, int code) {
    const std::scoped_lock lock{world().mutex};
    world().failing[function] = nth;
    world().failure[function] = code;
}
void asynchronous_error(int rank, int code) {
    const std::scoped_lock lock{world().mutex};
    world().asynchronous[rank] = code;
}
int asynchronous_error_of(int rank) {
    const std::scoped_lock lock{world().mutex};
    const auto found = world().asynchronous.find(rank);
    return found == world().asynchronous.end() ? 0 : found->second;
}
int calls(const std::string& function) {
    const std::scoped_lock lock{world().mutex};
    return world().calls[function];
}
Live live() {
    const std::scoped_lock lock{world().mutex};
    return {static_cast<int>(world().streams.size()), world().events, world().communicators,
            world().device_memory.size(), world().pinned_memory.size()};
}
void reset() {
    const std::scoped_lock lock{world().mutex};
    world().devices = 8;
    world().most_delay = 0;
    world().calls.clear();
    world().failing.clear();
    world().failure.clear();
    world().asynchronous.clear();
}
std::optional<int> enter(const char* function) {
    const std::scoped_lock lock{world().mutex};
    ++world().calls[function];
    const auto found = world().failing.find(function);
    if (found == world().failing.end() || --found->second > 0) return {};
    world().failing.erase(found);
    return world().failure[function];
}
void add_communicator(int number) {
    const std::scoped_lock lock{world().mutex};
    world().communicators += number;
}
bool is_device_memory(const void* begin, std::size_t bytes) {
    const std::scoped_lock lock{world().mutex};
    return bytes == 0 || contains(world().device_memory, begin, bytes);
}

}  // namespace hvd_test_double

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    ENTER(cudaGetDeviceCount);
    const std::scoped_lock lock{world().mutex};
    if (world().devices == 0) return result(cudaErrorNoDevice);  // `count` stays as it is, as with the real one
    *count = world().devices;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    ENTER(cudaSetDevice);
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    ENTER(cudaGetDevice);
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t code) {
    switch (code) {
        case cudaSuccess:
            return "no error";
        case cudaErrorNotReady:
            return "device not ready";
        case cudaErrorNoDevice:
            return "no CUDA-capable device is detected";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorIllegalAddress:
            return "an illegal memory access was encountered";
        default:
            return "an error of the test double";
    }
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    ENTER(cudaStreamCreateWithPriority);
    *stream = new CUstream_st;
    const std::scoped_lock lock{world().mutex};
    world().streams.push_back(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    {
        const std::scoped_lock lock{world().mutex};
        std::erase(world().streams, stream);
    }
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    ENTER(cudaStreamSynchronize);
    stream_of(stream)->wait();
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    ENTER(cudaStreamQuery);
    return stream_of(stream)->is_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    ENTER(cudaStreamWaitEvent);
    if (const auto point = event->point) stream_of(stream)->give([point] { point->wait(); });
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    ENTER(cudaLaunchHostFunc);
    stream_of(stream)->give([=] { function(data); });
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    ENTER(cudaDeviceSynchronize);
    std::vector<cudaStream_t> streams;
    {
        const std::scoped_lock lock{world().mutex};
        streams = world().streams;
    }
    wait_for_all_streams();
    for (cudaStream_t stream : streams) stream->wait();
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    ENTER(cudaEventCreateWithFlags);
    *event = new CUevent_st;
    const std::scoped_lock lock{world().mutex};
    ++world().events;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    const std::scoped_lock lock{world().mutex};
    --world().events;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ENTER(cudaEventRecord);
    event->point = std::make_shared<Point>();
    stream_of(stream)->give([point = event->point] { point->reach(); });
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    ENTER(cudaEventQuery);
    return !event->point || event->point->look() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER(cudaEventSynchronize);
    if (event->point) event->point->wait();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
    ENTER(cudaMalloc);
    return allocate(world().device_memory, memory, bytes);
}
cudaError_t cudaFree(void* memory) {
    ENTER(cudaFree);
    wait_for_all_streams();
    return release(world().device_memory, memory);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
    ENTER(cudaFreeAsync);
    stream_of(stream)->give([=] { static_cast<void>(release(world().device_memory, memory)); });
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
    ENTER(cudaMallocHost);
    return allocate(world().pinned_memory, memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
    ENTER(cudaFreeHost);
    return release(world().pinned_memory, memory);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    ENTER(cudaMemcpyAsync);
    if (!is_in_range(to, bytes) || !is_in_range(from, bytes)) return result(cudaErrorInvalidValue);
    stream_of(stream)->give([=] { std::memmove(to, from, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    ENTER(cudaMemcpy);
    const cudaError_t code = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
    stream_of(nullptr)->wait();
    return code;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
    ENTER(cudaMemsetAsync);
    if (!is_in_range(memory, bytes)) return result(cudaErrorInvalidValue);
    stream_of(stream)->give([=] { std::memset(memory, value, bytes); });
    return cudaSuccess;
}

}  // extern "C"
