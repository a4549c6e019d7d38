// Copies between device and host memory that are done when they return. Needs CUDA; declared always.
#pragma once

#include <cstddef>
#include <memory>

#ifdef HVD_WITH_CUDA
#include <hvd/device/device_memory.hpp>
#endif

namespace hvd::device {

/// `Enabled` keeps units with CUDA apart from those without.
template <bool Enabled>
struct HostCopy {
    template <class... Arguments>
    explicit HostCopy(const Arguments&...) {
        static_assert(Enabled && sizeof...(Arguments) != 0,
                      "hvd: this tensor lies in device memory and CUDA is not enabled in this translation unit; define "
                      "HVD_WITH_CUDA, give the compiler CUDA's headers, and link with -lcudart");
    }
    static constexpr std::size_t bytes = 0;
    void* data() const { return nullptr; }
    void fetch(const void*) const {}
    void give_back(void*) const {}
};

#ifdef HVD_WITH_CUDA
/// `bytes` of host memory that the current device reaches fast.
template <>
struct HostCopy<true> {
    explicit HostCopy(std::size_t size) : bytes{size} {
        static const auto cache = std::make_shared<Cache<Pinned>>(0);
        int device = 0;
        check(cudaGetDevice(&device), "cudaGetDevice");
        buffer = cache->take(bytes);
    }
    void* data() const { return buffer.data(); }
    /// Behind all that the device was given, on any stream.
    void fetch(const void* device) const {
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        copy(buffer.data(), device);
    }
    void give_back(void* device) const { copy(device, buffer.data()); }

    std::size_t bytes;
    PinnedBuffer buffer;

private:
    void copy(void* to, const void* from) const {
        if (bytes > 0) check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    }
};
inline constexpr bool has_host_copy = true;
#else
inline constexpr bool has_host_copy = false;
#endif

}  // namespace hvd::device
