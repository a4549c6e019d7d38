// How elements are held in AVX2 registers, two at a time, and what the operations do to them. Written with the
// compilers' vector extensions: <immintrin.h> would cost every user half a second of compile time.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hvd/core/op.hpp>
#include <hvd/core/scalar.hpp>

namespace hvd::detail::avx2 {

template <class C>
struct VectorOf {
    typedef C type [[gnu::vector_size(32)]];
};

template <class C>
using Vector = typename VectorOf<C>::type;

using Words = Vector<std::uint32_t>;
using Floats = Vector<float>;
typedef short Halves [[gnu::vector_size(16)]];

/// Stores past the caches when `stream` is set; `to` is then a multiple of the vector's size.
template <bool stream, class V>
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void store_vector(unsigned char* to, V v) {
    if constexpr (!stream) {
        std::memcpy(to, &v, sizeof v);
    } else {
#if defined(__clang__)
        __builtin_nontemporal_store(v, reinterpret_cast<V*>(to));
#else
        typedef long long Int4 [[gnu::vector_size(32)]];
        typedef long long Int2 [[gnu::vector_size(16)]];
        if constexpr (sizeof(V) == 32)
            __builtin_ia32_movntdq256(reinterpret_cast<Int4*>(to), reinterpret_cast<Int4>(v));
        else __builtin_ia32_movntdq(reinterpret_cast<Int2*>(to), reinterpret_cast<Int2>(v));
#endif
    }
}

/// Lanes<E>: `Value` is the type calculated in, `bytes` how much one pair of registers holds.
template <class E>
struct Lanes {
    using Value = E;
    struct Pack {
        Vector<E> first, second;
    };
    static constexpr std::size_t bytes = sizeof(Pack);

    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void load(Pack& p, const unsigned char* from) {
        std::memcpy(&p.first, from, 32);
        std::memcpy(&p.second, from + 32, 32);
    }
    template <bool stream = false>
    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void store(unsigned char* to, const Pack& p) {
        store_vector<stream>(to, p.first);
        store_vector<stream>(to + 32, p.second);
    }
};

template <>
struct Lanes<float16> {
    using Value = float;
    using Pack = Lanes<float>::Pack;
    static constexpr std::size_t bytes = 32;

    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void load(Pack& p, const unsigned char* from) {
        Halves first, second;
        std::memcpy(&first, from, 16);
        std::memcpy(&second, from + 16, 16);
        p.first = __builtin_ia32_vcvtph2ps256(first);
        p.second = __builtin_ia32_vcvtph2ps256(second);
        // clang must not know where these came from: it would calculate in 16 bits, element by element.
        __asm__("" : "+x"(p.first), "+x"(p.second));
    }
    template <bool stream = false>
    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void store(unsigned char* to, const Pack& p) {
        store_vector<stream>(to, __builtin_ia32_vcvtps2ph256(p.first, 0));  // 0: to nearest even
        store_vector<stream>(to + 16, __builtin_ia32_vcvtps2ph256(p.second, 0));
    }
};

/// Adds to the bits of floats what rounds them to their upper halves; a NaN becomes quiet and no more.
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline Words rounded_to_bfloat16(Floats x) {
    const Words bits = reinterpret_cast<Words>(x);
    const Words rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
    return x != x ? (bits | 0x400000U) : rounded;
}

template <>
struct Lanes<bfloat16> {
    using Value = float;
    using Pack = Lanes<float>::Pack;  // the elements of even index, and those of odd index: no shuffles needed
    static constexpr std::size_t bytes = 32;

    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void load(Pack& p, const unsigned char* from) {
        Words both;
        std::memcpy(&both, from, 32);
        p.first = reinterpret_cast<Floats>(both << 16);
        p.second = reinterpret_cast<Floats>(both & 0xffff0000U);
    }
    template <bool stream = false>
    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void store(unsigned char* to, const Pack& p) {
        const Words even = rounded_to_bfloat16(p.first) >> 16;
        const Words odd = rounded_to_bfloat16(p.second) & 0xffff0000U;
        store_vector<stream>(to, even | odd);
    }
};

/// bfloat16 with its elements in order, to be converted.
struct OrderedBfloat16 {};

template <>
struct Lanes<OrderedBfloat16> {
    using Pack = Lanes<float>::Pack;
    static constexpr std::size_t bytes = 32;
    typedef std::uint16_t Shorts [[gnu::vector_size(16)]];

    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void load(Pack& p, const unsigned char* from) {
        Shorts first, second;
        std::memcpy(&first, from, 16);
        std::memcpy(&second, from + 16, 16);
        p.first = reinterpret_cast<Floats>(__builtin_convertvector(first, Words) << 16);
        p.second = reinterpret_cast<Floats>(__builtin_convertvector(second, Words) << 16);
    }
    template <bool stream = false>
    [[gnu::always_inline, gnu::target("avx2,f16c")]] static inline void store(unsigned char* to, const Pack& p) {
        store_vector<stream>(to, __builtin_convertvector(rounded_to_bfloat16(p.first) >> 16, Shorts));
        store_vector<stream>(to + 16, __builtin_convertvector(rounded_to_bfloat16(p.second) >> 16, Shorts));
    }
};

/// What hvd's operation does to each element, with the same choice of NaN and of zero's sign as the operation itself.
template <class Op, class V>
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void combine_vector(V& a, const V& b) {
    if constexpr (std::is_same_v<Op, Product>) a = a * b;
    else if constexpr (std::is_same_v<Op, Min>) a = ((a <= b) | (a != a)) ? a : b;
    else if constexpr (std::is_same_v<Op, Max>) a = ((a >= b) | (a != a)) ? a : b;
    else a = a + b;
}

template <class Op, class Pack>
[[gnu::always_inline, gnu::target("avx2,f16c")]] inline void combine(Pack& a, const Pack& b) {
    combine_vector<Op>(a.first, b.first);
    combine_vector<Op>(a.second, b.second);
}

}  // namespace hvd::detail::avx2

#endif
