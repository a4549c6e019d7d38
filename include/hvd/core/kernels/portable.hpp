// The kernels as plain loops: for any type and operation, on any processor. They define what the fast ones compute.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <hvd/core/op.hpp>
#include <hvd/core/scalar.hpp>

namespace hvd::detail {

/// The type that hvd's own operations work in: float for the 16-bit floats, else the type itself.
template <class T, class Op>
using Accumulator = std::conditional_t<Float16Scalar<T> && BuiltinOp<Op>, float, T>;

template <class T, class Op>
void reduce_pair_portable(T* out, const T* a, const T* b, std::size_t n, const Op& op) {
    using A = Accumulator<T, Op>;
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(op(static_cast<A>(a[i]), static_cast<A>(b[i])));
    }
}

template <class T, class Op>
void reduce_many_portable(T* out, const T* const* inputs, std::size_t count, std::size_t n, const Op& op) {
    using A = Accumulator<T, Op>;
    for (std::size_t i = 0; i < n; ++i) {
        A result = static_cast<A>(inputs[0][i]);
        for (std::size_t k = 1; k < count; ++k) result = static_cast<A>(op(result, static_cast<A>(inputs[k][i])));
        out[i] = static_cast<T>(result);
    }
}

/// Truncated toward zero, at most the limits of T; NaN is 0.
template <std::integral T>
constexpr T truncate(double value) {
    if constexpr (std::same_as<T, bool>) return value >= 1.0;
    constexpr auto lowest = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double beyond = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);  // max + 1, exactly
    if (value >= beyond) return std::numeric_limits<T>::max();
    if (value > lowest - 1.0) return static_cast<T>(value);
    return value <= lowest ? std::numeric_limits<T>::min() : T{};
}

/// Multiplies or divides by `factor`, in C.
template <class C, bool divides, class T>
void scale_portable(T* out, const T* in, std::size_t n, double factor) {
    const auto f = static_cast<C>(factor);
    for (std::size_t i = 0; i < n; ++i) {
        const auto x = static_cast<C>(in[i]);
        const C result = divides ? x / f : x * f;
        if constexpr (std::integral<T>) out[i] = truncate<T>(result);
        else out[i] = static_cast<T>(result);
    }
}

/// For a scalar of the user's, by the operators that it has for a double.
template <bool divides, class T>
void scale_portable_own(T* out, const T* in, std::size_t n, double factor) {
    for (std::size_t i = 0; i < n; ++i) {
        if constexpr (divides) out[i] = static_cast<T>(in[i] / factor);
        else out[i] = static_cast<T>(in[i] * factor);
    }
}

template <class To, class From>
void convert_portable(To* out, const From* in, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
}

}  // namespace hvd::detail
