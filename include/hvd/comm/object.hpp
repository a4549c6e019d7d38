// Objects between ranks: numbers, strings, vectors, and classes with serialize(), by way of bytes.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include <hvd/comm/allgather.hpp>
#include <hvd/comm/broadcast.hpp>
#include <hvd/core/serialize.hpp>

namespace hvd {

/// Overwrites `x` on every rank with that of rank `root`. Collective: the same type and root on all ranks.
template <class T, class A, class X>
void broadcast_object(const Communicator<T, A>& world, X& x, int root) {
    if constexpr (detail::explain_object<X>()) {
        const auto comm = world.host();
        std::vector<unsigned char> bytes;
        if (comm.rank() == root) {
            const std::vector<std::byte> written = detail::to_bytes(x);
            bytes.resize(written.size());
            if (!written.empty()) std::memcpy(bytes.data(), written.data(), written.size());
        }
        // The type is compared, too: in a way of its own, so that a broadcast of numbers is no match.
        std::uint64_t length[2] = {bytes.size(), detail::hash_bytes(detail::hash_begin, detail::type_name<X>())};
        const std::uint64_t own_type = length[1];
        broadcast(comm, length, root);
        const auto types = allgather(comm, std::span<const std::uint64_t>{&own_type, 1});
        for (std::uint64_t type : types)
            if (type != length[1])
                throw MismatchError{
                    "hvd: broadcast_object: the ranks pass objects of different types; pass the same type"};
        bytes.resize(static_cast<std::size_t>(length[0]));
        broadcast(comm, bytes, root);
        if (comm.rank() != root) detail::from_bytes(std::as_bytes(std::span{bytes}), x);
    }
}

/// Every rank's object on every rank, in rank order. Collective: the same type on all ranks.
template <class T, class A, class X>
std::vector<X> allgather_object(const Communicator<T, A>& world, const X& x) {
    std::vector<X> objects;
    if constexpr (detail::explain_object<X>()) {
        const auto comm = world.host();
        const std::vector<std::byte> written = detail::to_bytes(x);
        std::vector<unsigned char> bytes(written.size());
        if (!written.empty()) std::memcpy(bytes.data(), written.data(), written.size());
        const std::uint64_t own[2] = {bytes.size(), detail::hash_bytes(detail::hash_begin, detail::type_name<X>())};
        const auto headers = allgather(comm, own);
        const auto all = allgather(comm, bytes);
        std::size_t place = 0;
        for (std::size_t r = 0; r < static_cast<std::size_t>(comm.size()); ++r) {
            if (headers[2 * r + 1] != own[1])
                throw MismatchError{
                    "hvd: allgather_object: the ranks pass objects of different types; pass the same type"};
            const auto length = static_cast<std::size_t>(headers[2 * r]);
            X object{};
            detail::from_bytes(std::as_bytes(std::span{all}).subspan(place, length), object);
            objects.push_back(std::move(object));
            place += length;
        }
    }
    return objects;
}

}  // namespace hvd
