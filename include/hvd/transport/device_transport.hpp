// What a transport between devices offers beside messages, which carry what lies on the host.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <hvd/core/memory.hpp>
#include <hvd/transport/transport.hpp>

namespace hvd::detail {

/// A transport whose tensors lie on devices. Its collectives are queued there, behind the `fence()`s they are given, and are
/// done when the device has taken them. `join()`: the rank's own stream waits for them; `finish()`: so does the host.
template <class T>
concept DeviceTransport = requires(T& t) {
    requires std::same_as<typename T::memory_space, DeviceMemory>;
    t.fence();
    t.join();
    t.finish();
};

/// A tensor on the device that is reduced: `n` elements at `in`, the result at `out`, which may be `in`.
template <class E>
struct DevicePiece {
    const E* in;
    E* out;
    std::size_t n;
};

/// Bytes for, or from, one peer.
struct DeviceParcel {
    int peer;
    void* data;
    std::size_t bytes;
};

/// What marks a place in a rank's stream; nothing on host transports.
template <class T>
struct FenceType {
    struct type {};
};
template <DeviceTransport T>
struct FenceType<T> {
    using type = typename T::Fence;
};
template <class T>
using FenceOf = typename FenceType<T>::type;
template <class T>
FenceOf<T> fence_of(T& transport) {
    if constexpr (DeviceTransport<T>) return transport.fence();
    else return {};
}

/// The transport's library has a reduction of such elements with Op.
template <class T, class E, class Op>
consteval bool reduces_on_device() {
    if constexpr (DeviceTransport<T>) return T::template can_reduce<E, Op>(1);
    else return false;
}

}  // namespace hvd::detail
