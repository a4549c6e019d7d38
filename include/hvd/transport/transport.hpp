// The Transport concept: ranks, and messages of bytes between them that never block the caller.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <hvd/core/memory.hpp>
#include <hvd/transport/shared_region.hpp>
#include <hvd/transport/topology.hpp>
#include <hvd/transport/worker.hpp>

namespace hvd {
namespace detail {

template <class T>
concept HasRanks = requires(const T& t) {
    { t.rank() } -> std::convertible_to<int>;
    { t.size() } -> std::convertible_to<int>;
    { t.topology() } -> std::convertible_to<const Topology&>;
};

template <class T>
concept HasMessages = std::movable<typename T::Message> && std::default_initializable<typename T::Message> &&
    requires(T& t, typename T::Message& m, int peer, int tag, const std::byte* out, std::byte* in, std::size_t bytes) {
    { t.send(peer, tag, out, bytes) } -> std::same_as<typename T::Message>;
    { t.receive(peer, tag, in, bytes) } -> std::same_as<typename T::Message>;
    { t.test(m) } -> std::convertible_to<bool>;
};

template <class T>
concept HasSubgroups = requires(T& t, std::span<const int> members, int id) {
    { t.subgroup(members, id) } -> std::same_as<T>;
};

template <class T>
concept HasWorker = requires(T& t) {
    { t.worker() } -> std::convertible_to<std::shared_ptr<Worker>>;
};

template <class T>
concept HasName = requires {
    std::string_view{T::name};
};

/// Ranks of one node can have memory in common: `share(sizes, reason)` is collective and returns a SharedRegion, or nothing.
template <class T>
concept SharesMemory = requires(T& t, std::vector<std::size_t> sizes, std::string& reason) {
    { t.share(sizes, reason) } -> std::same_as<std::shared_ptr<SharedRegion>>;
};

template <class T>
consteval bool has_common_addresses() {
    if constexpr (requires { T::has_common_addresses; }) return T::has_common_addresses;
    else return false;
}

}  // namespace detail

/// What an object must offer to carry hvd's operations between ranks:
/// - `rank()`, `size()`, `topology()`, `static name`;
/// - `send(peer, tag, data, bytes)` and `receive(peer, tag, data, bytes)`: begin a message and return a `Message` (movable,
///   default-constructible, abandons an unfinished message when destroyed). `data` stays untouched, or reserved, until
///   `test(message)` has returned true. Messages between two ranks with the same tag arrive in the order sent; a message
///   may be shorter than the room for it; one that is longer is a TransportError. Tags are 0...32767;
/// - `test(message)`: true once it is complete; never blocks; throws TransportError when it cannot complete;
/// - `subgroup(members, id)`: called by all of `members` (ranks of this transport, in their new order) with the same id,
///   after all of them were heard from;
/// - `worker()`: the Worker of this rank (a shared_ptr), the same for the subgroups.
template <class T>
concept Transport = detail::HasRanks<T> && detail::HasMessages<T> && detail::HasSubgroups<T> && detail::HasWorker<T> &&
    detail::HasName<T>;

}  // namespace hvd
