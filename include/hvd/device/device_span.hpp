// DeviceSpan: elements on a device that somebody else owns, as a tensor.
#pragma once

#include <cstddef>

#include <hvd/core/tensor.hpp>

namespace hvd {

/// `size()` elements of device memory at `data()`. The host must not look at them.
template <class E>
class DeviceSpan {
public:
    using value_type = E;
    DeviceSpan() = default;
    DeviceSpan(E* data, std::size_t size) : data_{data}, size_{size} {}
    E* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    E* data_ = nullptr;
    std::size_t size_ = 0;
};

template <class E>
struct tensor_traits<DeviceSpan<E>> {
    using value_type = E;
    using memory_space = DeviceMemory;
    static constexpr bool is_view = true;
    static E* data(const DeviceSpan<E>& span) { return span.data(); }
    static std::size_t size(const DeviceSpan<E>& span) { return span.size(); }
};

}  // namespace hvd
