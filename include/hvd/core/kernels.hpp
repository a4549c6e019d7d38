// Element-wise kernels on host memory: reduce, convert, scale. Each picks at run time between plain loops and loops for
// AVX2, which give the same bits (except which NaN comes out of a sum or product of several).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hvd/core/kernels/avx2.hpp>
#include <hvd/core/kernels/isa.hpp>
#include <hvd/core/kernels/portable.hpp>
#include <hvd/core/op.hpp>
#include <hvd/core/scalar.hpp>

namespace hvd::detail {

template <std::size_t size, bool is_signed>
using IntegerOf = std::conditional_t<
    size == 1, std::conditional_t<is_signed, std::int8_t, std::uint8_t>,
    std::conditional_t<size == 2, std::conditional_t<is_signed, std::int16_t, std::uint16_t>,
                       std::conditional_t<size == 4, std::conditional_t<is_signed, std::int32_t, std::uint32_t>,
                                          std::conditional_t<is_signed, std::int64_t, std::uint64_t>>>>;

/// The element type whose vector loop reduces elements of type T with Op, or void. All integers of one width share
/// theirs; sums and products wrap, so they take the unsigned one.
template <class T, class Op>
constexpr auto lane_of() {
    constexpr bool adds = std::same_as<Op, Sum> || std::same_as<Op, Average>;
    constexpr bool orders = std::same_as<Op, Min> || std::same_as<Op, Max>;
    if constexpr (!adds && !orders && !std::same_as<Op, Product>) {
        return std::type_identity<void>{};
    } else if constexpr (std::integral<T> && sizeof(T) <= 8) {
        return std::type_identity<IntegerOf<sizeof(T), orders && std::is_signed_v<T>>>{};
    } else if constexpr (std::same_as<T, float> || std::same_as<T, double> || Float16Scalar<T>) {
        return std::type_identity<T>{};
    } else if constexpr (ComplexScalar<T> && adds) {
        return std::type_identity<typename T::value_type>{};
    } else {
        return std::type_identity<void>{};
    }
}

template <class T, class Op>
using LaneOf = typename decltype(lane_of<T, Op>())::type;

template <class T>
unsigned char* bytes_of(T* p) {
    return reinterpret_cast<unsigned char*>(p);
}

template <class T>
const unsigned char* bytes_of(const T* p) {
    return reinterpret_cast<const unsigned char*>(p);
}

/// out[i] = op(a[i], b[i]). `out` may be `a` or `b`, and does not otherwise overlap them.
template <class T, class Op>
void reduce_pair(T* out, const T* a, const T* b, std::size_t n, const Op& op) {
#if defined(__x86_64__)
    using Lane = LaneOf<T, Op>;
    if constexpr (!std::is_void_v<Lane>) {
        if (active_isa() == Isa::avx2) {
            return avx2::reduce_pair<Lane, Op>(bytes_of(out), bytes_of(a), bytes_of(b), n * sizeof(T));
        }
    }
#endif
    reduce_pair_portable(out, a, b, n, op);
}

/// out[i] = op(...op(op(inputs[0][i], inputs[1][i]), inputs[2][i])...): from left to right, each input read once. hvd's
/// own operations work on 16-bit floats in float and round once, at the end. `out` may be any one of the inputs, and
/// does not otherwise overlap them; count is at least 1 (a copy, to the bit).
template <class T, class Op>
void reduce_many(T* out, const T* const* inputs, std::size_t count, std::size_t n, const Op& op) {
    if (count == 1) {
        if (n > 0 && out != inputs[0]) std::memcpy(static_cast<void*>(out), inputs[0], n * sizeof(T));
        return;
    }
    if (count == 2) return reduce_pair(out, inputs[0], inputs[1], n, op);
#if defined(__x86_64__)
    using Lane = LaneOf<T, Op>;
    if constexpr (!std::is_void_v<Lane>) {
        if (active_isa() == Isa::avx2) return avx2::reduce_many<Lane, Op, false>(out, inputs, count, n * sizeof(T));
    }
#endif
    reduce_many_portable(out, inputs, count, n, op);
}

/// The same, but writes past the caches where that is possible: for results larger than the cache that nobody reads
/// soon. Best when `out` is not among the inputs.
template <class T, class Op>
void reduce_many_streaming(T* out, const T* const* inputs, std::size_t count, std::size_t n, const Op& op) {
#if defined(__x86_64__)
    using Lane = LaneOf<T, Op>;
    if constexpr (!std::is_void_v<Lane>) {
        const bool aligned = reinterpret_cast<std::uintptr_t>(out) % sizeof(Lane) == 0;
        if (active_isa() == Isa::avx2 && aligned) {
            return avx2::reduce_many<Lane, Op, true>(out, inputs, count, n * sizeof(T));
        }
    }
#endif
    reduce_many(out, inputs, count, n, op);
}

/// out[i] = static_cast<To>(in[i]). No overlap, unless To and From are one type and out is in.
template <class To, class From>
void convert(To* out, const From* in, std::size_t n) {
    if constexpr (std::same_as<To, From>) {
        if (n > 0 && out != in) std::memcpy(static_cast<void*>(out), in, n * sizeof(To));
    } else {
#if defined(__x86_64__)
        if constexpr ((std::same_as<To, float> && Float16Scalar<From>) ||
                      (std::same_as<From, float> && Float16Scalar<To>)) {
            using ToLane = std::conditional_t<std::same_as<To, bfloat16>, avx2::OrderedBfloat16, To>;
            using FromLane = std::conditional_t<std::same_as<From, bfloat16>, avx2::OrderedBfloat16, From>;
            if (active_isa() == Isa::avx2) {
                return avx2::convert<ToLane, FromLane>(bytes_of(out), bytes_of(in), n);
            }
        }
#endif
        convert_portable(out, in, n);
    }
}

/// Multiplies or divides. C is the type to calculate in.
template <class C, bool divides, class T>
void scale_in(T* out, const T* in, std::size_t n, double factor) {
#if defined(__x86_64__)
    if constexpr (!std::integral<T> && (std::same_as<C, float> || std::same_as<C, double>)) {
        if (active_isa() == Isa::avx2) {
            if constexpr (std::same_as<T, float> && std::same_as<C, double>) {
                return avx2::scale_float_in_double<divides>(out, in, n, factor);
            } else {
                return avx2::scale<T, divides>(bytes_of(out), bytes_of(in), n * sizeof(T), static_cast<C>(factor));
            }
        }
    }
#endif
    scale_portable<C, divides>(out, in, n, factor);
}

template <bool divides, class T>
void scale_any(T* out, const T* in, std::size_t n, double factor) {
    if constexpr (ComplexScalar<T>) {
        using Real = typename T::value_type;  // laid out as Real[2], as the standard has it for std::complex
        scale_any<divides>(reinterpret_cast<Real*>(out), reinterpret_cast<const Real*>(in), 2 * n, factor);
    } else if constexpr (Float16Scalar<T>) {
        scale_in<float, divides>(out, in, n, factor);
    } else if constexpr (std::same_as<T, float>) {
        const bool exact = factor != factor || static_cast<double>(static_cast<float>(factor)) == factor;
        if (exact) scale_in<float, divides>(out, in, n, factor);
        else scale_in<double, divides>(out, in, n, factor);
    } else if constexpr (std::integral<T>) {
        scale_in<double, divides>(out, in, n, factor);
    } else if constexpr (std::floating_point<T>) {
        scale_in<T, divides>(out, in, n, factor);
    } else {
        scale_portable_own<divides>(out, in, n, factor);
    }
}

/// out[i] = factor * in[i]; `out` may be `in`. Integers are calculated in double, truncated toward zero and kept within
/// their limits (NaN is 0); 16-bit floats in float; float in double where it cannot hold `factor`.
template <class T>
void scale(T* out, const T* in, std::size_t n, double factor) {
    scale_any<false>(out, in, n, factor);
}

/// out[i] = in[i] / divisor, likewise, and rounded as a division is.
template <class T>
void divide(T* out, const T* in, std::size_t n, double divisor) {
    scale_any<true>(out, in, n, divisor);
}

}  // namespace hvd::detail
