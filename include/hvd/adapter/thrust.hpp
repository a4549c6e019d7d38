// Thrust's vectors as tensors: thrust::device_vector lies on a device where Thrust's device system is CUDA.
#pragma once

#ifdef HVD_WITH_THRUST

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cstddef>
#include <span>

#include <hvd/core/tensor.hpp>

namespace hvd {

template <class E, class Allocator>
struct tensor_traits<thrust::device_vector<E, Allocator>> {
    using value_type = E;
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
    using memory_space = DeviceMemory;
#else
    using memory_space = HostMemory;
#endif
    using Vector = thrust::device_vector<E, Allocator>;
    static E* data(Vector& vector) { return thrust::raw_pointer_cast(vector.data()); }
    static const E* data(const Vector& vector) { return thrust::raw_pointer_cast(vector.data()); }
    static std::size_t size(const Vector& vector) { return vector.size(); }
    static void resize(Vector& vector, std::span<const std::size_t> shape) {
        std::size_t count = 1;
        for (std::size_t extent : shape) count *= extent;
        vector.resize(count);
    }
};

}  // namespace hvd

#endif
