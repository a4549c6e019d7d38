// The kernels for AVX2 processors: one loop each, over packs of elements as Lanes holds them. Lengths are in bytes, and
// what is left over at an edge goes through a buffer, so that every element is treated the same way.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hvd/core/kernels/avx2_lanes.hpp>

namespace hvd::detail::avx2 {

using Bytes = unsigned char;

/// The first `count` bytes of a pack; the others are zero.
template <class L>
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void load_part(typename L::Pack& p, const Bytes* from,
                                                                       std::size_t count) {
    Bytes buffer[L::bytes] = {};
    std::memcpy(buffer, from, count);
    L::load(p, buffer);
}

template <class L>
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void store_part(Bytes* to, const typename L::Pack& p,
                                                                        std::size_t count) {
    Bytes buffer[L::bytes];
    L::store(buffer, p);
    std::memcpy(to, buffer, count);
}

template <class E, class Op>
[[gnu::target("avx2,f16c")]] void reduce_pair(Bytes* out, const Bytes* a, const Bytes* b, std::size_t size) {
    using L = Lanes<E>;
    typename L::Pack x, y;
    std::size_t at = 0;
    for (; at + L::bytes <= size; at += L::bytes) {
        L::load(x, a + at);
        L::load(y, b + at);
        combine<Op>(x, y);
        L::store(out + at, x);
    }
    if (at < size) {
        load_part<L>(x, a + at, size - at);
        load_part<L>(y, b + at, size - at);
        combine<Op>(x, y);
        store_part<L>(out + at, x, size - at);
    }
}

/// Part of a pack, at either end of reduce_many.
template <class E, class Op, class T>
[[gnu::target("avx2,f16c")]] void reduce_part(T* out, const T* const* inputs, std::size_t count, std::size_t at,
                                              std::size_t size) {
    using L = Lanes<E>;
    typename L::Pack x, y;
    load_part<L>(x, reinterpret_cast<const Bytes*>(inputs[0]) + at, size);
    for (std::size_t k = 1; k < count; ++k) {
        load_part<L>(y, reinterpret_cast<const Bytes*>(inputs[k]) + at, size);
        combine<Op>(x, y);
    }
    store_part<L>(reinterpret_cast<Bytes*>(out) + at, x, size);
}

/// With `stream`, `out` must be a multiple of sizeof(E).
template <class E, class Op, bool stream, class T>
[[gnu::target("avx2,f16c")]] void reduce_many(T* out, const T* const* inputs, std::size_t count, std::size_t size) {
    using L = Lanes<E>;
    typename L::Pack x, y;
    std::size_t at = 0;
    if constexpr (stream) {
        at = (32 - reinterpret_cast<std::uintptr_t>(out) % 32) % 32;
        if (at > size) at = size;
        if (at > 0) reduce_part<E, Op>(out, inputs, count, 0, at);
    }
    for (; at + L::bytes <= size; at += L::bytes) {
        L::load(x, reinterpret_cast<const Bytes*>(inputs[0]) + at);
        for (std::size_t k = 1; k < count; ++k) {
            L::load(y, reinterpret_cast<const Bytes*>(inputs[k]) + at);
            combine<Op>(x, y);
        }
        L::template store<stream>(reinterpret_cast<Bytes*>(out) + at, x);
    }
    if (at < size) reduce_part<E, Op>(out, inputs, count, at, size - at);
    if constexpr (stream) __builtin_ia32_sfence();  // such stores are not ordered before later ones by themselves
}

template <class To, class From>
[[gnu::target("avx2,f16c")]] void convert(Bytes* out, const Bytes* in, std::size_t n) {
    using L = Lanes<From>;
    using M = Lanes<To>;
    constexpr std::size_t packed = 16;
    typename L::Pack x;
    std::size_t at = 0;
    for (; at + packed <= n; at += packed) {
        L::load(x, in + at * (L::bytes / packed));
        M::store(out + at * (M::bytes / packed), x);
    }
    if (at < n) {
        load_part<L>(x, in + at * (L::bytes / packed), (n - at) * (L::bytes / packed));
        store_part<M>(out + at * (M::bytes / packed), x, (n - at) * (M::bytes / packed));
    }
}

template <bool divide, class Pack, class C>
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void scale_pack(Pack& x, C factor) {
    if constexpr (divide) {
        x.first = x.first / factor;
        x.second = x.second / factor;
    } else {
        x.first = x.first * factor;
        x.second = x.second * factor;
    }
}

template <class E, bool divide>
[[gnu::target("avx2,f16c")]] void scale(Bytes* out, const Bytes* in, std::size_t size,
                                        typename Lanes<E>::Value factor) {
    using L = Lanes<E>;
    typename L::Pack x;
    std::size_t at = 0;
    for (; at + L::bytes <= size; at += L::bytes) {
        L::load(x, in + at);
        scale_pack<divide>(x, factor);
        L::store(out + at, x);
    }
    if (at < size) {
        load_part<L>(x, in + at, size - at);
        scale_pack<divide>(x, factor);
        store_part<L>(out + at, x, size - at);
    }
}

/// For factors that a float cannot hold.
template <bool divide>
[[gnu::target("avx2,f16c")]] inline void scale_float_in_double(float* out, const float* in, std::size_t n,
                                                               double factor) {
    typedef float Narrow [[gnu::vector_size(16)]];
    using Wide = Vector<double>;
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        Narrow x;
        std::memcpy(&x, in + i, sizeof x);
        const Wide wide = __builtin_convertvector(x, Wide);
        x = __builtin_convertvector(divide ? wide / factor : wide * factor, Narrow);
        std::memcpy(out + i, &x, sizeof x);
    }
    for (; i < n; ++i) {
        const auto wide = static_cast<double>(in[i]);
        out[i] = static_cast<float>(divide ? wide / factor : wide * factor);
    }
}

}  // namespace hvd::detail::avx2

#endif
