// Memory of devices, and host memory that devices reach fast, kept for the next use. Needs CUDA.
#pragma once

#ifdef HVD_WITH_CUDA

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <hvd/device/cuda_handles.hpp>

namespace hvd::device {

/// Where hvd takes the device memory from that it needs for itself. Both are called with that device current.
struct Allocator {
    /// Throws when there is none.
    void* (*allocate)(std::size_t bytes) = [](std::size_t bytes) {
        void* memory = nullptr;
        check(cudaMalloc(&memory, bytes), "cudaMalloc");
        return memory;
    };
    void (*release)(void* memory) noexcept = [](void* memory) noexcept { static_cast<void>(cudaFree(memory)); };
};

/// The one that hvd uses; assign to it before the first launch to have the memory taken from a pool of your own.
inline Allocator& allocator() {
    static Allocator used;
    return used;
}

/// Kinds of memory that a Cache can keep.
struct InDevice {
    static void* allocate(std::size_t bytes) { return allocator().allocate(bytes); }
    static void release(void* memory) noexcept { allocator().release(memory); }
};
/// Host memory that is locked in place.
struct Pinned {
    static void* allocate(std::size_t bytes) {
        void* memory = nullptr;
        check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
        return memory;
    }
    static void release(void* memory) noexcept { static_cast<void>(cudaFreeHost(memory)); }
};

template <class Kind>
class Cache;

/// Memory from a Cache, which gets it back at the end. The next owner may have it at once: whoever queued work on it holds it
/// until that has run.
template <class Kind>
class Buffer {
public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept
        : cache_{std::move(other.cache_)},
          data_{std::exchange(other.data_, nullptr)},
          size_{std::exchange(other.size_, 0)} {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(cache_, other.cache_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Buffer() {
        if (data_ != nullptr) cache_->give_back(data_, size_);
    }
    std::byte* data() const { return data_; }
    /// At least what was asked for.
    std::size_t size() const { return size_; }

private:
    friend class Cache<Kind>;
    Buffer(std::shared_ptr<Cache<Kind>> cache, std::byte* data, std::size_t size)
        : cache_{std::move(cache)}, data_{data}, size_{size} {}

    std::shared_ptr<Cache<Kind>> cache_;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Memory of one device that is free at the moment. May be used by several threads.
template <class Kind>
class Cache : public std::enable_shared_from_this<Cache<Kind>> {
public:
    explicit Cache(int device) : device_{device} {}
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;
    ~Cache() {
        for (const auto& [data, size] : free_) Kind::release(data);
    }

    /// The smallest free piece of at least `bytes` that is not more than twice as long, or a new one.
    Buffer<Kind> take(std::size_t bytes) {
        if (bytes == 0) return {};
        {
            const std::scoped_lock lock{mutex_};
            std::size_t best = free_.size();
            for (std::size_t i = 0; i < free_.size(); ++i)
                if (free_[i].second >= bytes && free_[i].second / 2 <= bytes &&
                    (best == free_.size() || free_[i].second < free_[best].second))
                    best = i;
            if (best < free_.size()) {
                const auto [data, size] = free_[best];
                free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
                return {this->shared_from_this(), data, size};
            }
        }
        const Guard guard{device_};
        return {this->shared_from_this(), static_cast<std::byte*>(Kind::allocate(bytes)), bytes};
    }

    void give_back(std::byte* data, std::size_t size) {
        std::byte* oldest = nullptr;
        {
            const std::scoped_lock lock{mutex_};
            free_.emplace_back(data, size);
            if (free_.size() > most_kept) {
                oldest = free_.front().first;
                free_.erase(free_.begin());
            }
        }
        if (oldest != nullptr) Kind::release(oldest);
    }

private:
    static constexpr std::size_t most_kept = 16;
    int device_;
    std::mutex mutex_;
    std::vector<std::pair<std::byte*, std::size_t>> free_;
};

using DeviceBuffer = Buffer<InDevice>;
using PinnedBuffer = Buffer<Pinned>;

}  // namespace hvd::device

#endif
