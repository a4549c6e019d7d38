// Reduce operations as values. Any callable T(T, T) that is associative and commutative serves as one too.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include <hvd/core/scalar.hpp>

namespace hvd {
namespace detail {

/// Integers wrap; the detour through a wide unsigned type keeps that free of undefined behaviour.
template <std::integral T>
constexpr auto wrapping(T x) {
    if constexpr (sizeof(T) < sizeof(unsigned)) return static_cast<unsigned>(x);
    else return static_cast<std::make_unsigned_t<T>>(x);
}

template <class T>
constexpr bool is_nan(const T& x) {
    if constexpr (std::integral<T>) return false;
    else return x != x;
}

}  // namespace detail

struct Sum {
    static constexpr std::string_view name = "sum";
    template <class T>
    constexpr T operator()(const T& a, const T& b) const {
        if constexpr (std::integral<T>) return static_cast<T>(detail::wrapping(a) + detail::wrapping(b));
        else return a + b;
    }
};

/// The sum divided by the number of ranks. Integers are summed and divided in double and truncated toward zero.
struct Average {
    static constexpr std::string_view name = "average";
    template <class T>
    constexpr T operator()(const T& a, const T& b) const {
        return Sum{}(a, b);
    }
};

struct Product {
    static constexpr std::string_view name = "product";
    template <class T>
    constexpr T operator()(const T& a, const T& b) const {
        if constexpr (std::integral<T>) return static_cast<T>(detail::wrapping(a) * detail::wrapping(b));
        else return a * b;
    }
};

/// The smaller value; NaN when either is NaN. For bool: and.
struct Min {
    static constexpr std::string_view name = "min";
    template <class T>
    constexpr T operator()(const T& a, const T& b) const {
        if (detail::is_nan(a)) return a;
        if (detail::is_nan(b)) return b;
        return b < a ? b : a;
    }
};

/// The larger value; NaN when either is NaN. For bool: or.
struct Max {
    static constexpr std::string_view name = "max";
    template <class T>
    constexpr T operator()(const T& a, const T& b) const {
        if (detail::is_nan(a)) return a;
        if (detail::is_nan(b)) return b;
        return a < b ? b : a;
    }
};

/// Adaptive summation (Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021): orthogonal
/// gradients add up, parallel ones are averaged. Acts on whole tensors, so it is no function of two elements.
struct Adasum {
    static constexpr std::string_view name = "adasum";
};

inline constexpr Sum sum{};
inline constexpr Average average{};
inline constexpr Product product{};
inline constexpr Min min{};
inline constexpr Max max{};
inline constexpr Adasum adasum{};

namespace detail {

template <class Op>
concept BuiltinOp = std::same_as<Op, Sum> || std::same_as<Op, Average> || std::same_as<Op, Product> ||
    std::same_as<Op, Min> || std::same_as<Op, Max> || std::same_as<Op, Adasum>;

template <class Op, class T>
concept CallableOp = std::is_invocable_r_v<T, const Op&, T, T>;

template <class Op, class T>
consteval bool op_applies() {
    if constexpr (BuiltinOp<Op>) {
        constexpr bool order = std::same_as<Op, Min> || std::same_as<Op, Max>;
        if constexpr (!BuiltinScalar<T>) return false;
        else if constexpr (std::same_as<T, bool>) return order;
        else if constexpr (ComplexScalar<T>)
            return std::same_as<Op, Sum> || std::same_as<Op, Average> || std::same_as<Op, Product>;
        else if constexpr (std::same_as<Op, Adasum>) return !std::integral<T>;
        else return true;
    } else {
        return CallableOp<Op, T>;
    }
}

template <class Op>
constexpr std::string_view op_name() {
    if constexpr (BuiltinOp<Op>) return Op::name;
    else return "an operation of the user's";
}

template <class Op>
inline constexpr std::uint64_t op_id = hash_bytes(hash_begin, BuiltinOp<Op> ? op_name<Op>() : type_name<Op>());

}  // namespace detail

/// `Op` reduces elements of type `T`.
template <class Op, class T>
concept ReduceOperation = detail::op_applies<Op, T>();

}  // namespace hvd
