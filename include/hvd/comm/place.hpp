// Where tensors lie, and which transports can read them there.
#pragma once

#include <concepts>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

#include <hvd/core/explain.hpp>
#include <hvd/transport/device_transport.hpp>

namespace hvd::detail {

/// A tensor, or all tensors of a list, in device memory.
template <class X>
consteval bool is_on_device() {
    using U = std::remove_cvref_t<X>;
    if constexpr (Tensor<U>) {
        return std::same_as<memory_space_t<U>, DeviceMemory>;
    } else if constexpr (TensorTuple<U>) {
        return []<std::size_t... I>(std::index_sequence<I...>) {
            return sizeof...(I) > 0 && (is_on_device<std::tuple_element_t<I, U>>() && ...);
        }
        (std::make_index_sequence<std::tuple_size_v<U>>{});
    } else {
        return is_on_device<std::ranges::range_value_t<U>>();
    }
}

/// The collective hands device memory to a transport of host memory by way of host memory.
template <class T, class X>
inline constexpr bool goes_by_host = !DeviceTransport<T> && is_on_device<X>();

/// One sentence where the transport cannot read the tensors.
template <class T, class... X>
constexpr void require_place() {
    constexpr bool is_device_transport = DeviceTransport<T>;
    static_assert(
        !is_device_transport || (is_on_device<X>() && ...),
        "hvd: this tensor lies in host memory and hvd::Nccl moves device memory; call with world.host() for it, or "
        "add `using memory_space = hvd::DeviceMemory` to its tensor_traits if it does lie on a device");
    static_assert(is_device_transport || !(is_on_device<X>() || ...),
                  "hvd: this tensor lies in device memory, which this collective cannot read on a host transport; use "
                  "hvd::Nccl, or copy it to host memory first");
}

/// The same for collectives that can go by way of host memory.
template <class T, class... X>
constexpr void require_place_or_host() {
    if constexpr (DeviceTransport<T>) require_place<T, X...>();
}

}  // namespace hvd::detail
