// Values that depend on rank and index, and what reductions of them must give.
#pragma once

#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include <hvd/core/op.hpp>
#include <hvd/core/scalar.hpp>

namespace hvd::testing {

/// A number without visible order for each rank and index (splitmix64).
constexpr std::uint64_t scrambled(int rank, std::size_t index) {
    std::uint64_t x = (static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// The element at `index` that `rank` brings along. Integers are small enough that their sum is exact in double; floating-
/// point values have either sign, and for products lie near 1 so that nothing overflows.
template <Scalar E>
E value(int rank, std::size_t index, bool for_product = false) {
    const std::uint64_t h = scrambled(rank, index);
    if constexpr (std::same_as<E, bool>) {
        return h % 3 != 0;
    } else if constexpr (std::integral<E>) {
        const int small = static_cast<int>(h % 23);
        return static_cast<E>(std::is_signed_v<E> ? small - 11 : small);
    } else if constexpr (hvd::detail::ComplexScalar<E>) {
        using Part = typename E::value_type;
        const auto part = [&](std::uint64_t bits) {
            return static_cast<Part>(static_cast<double>(bits % 401) / 256 - 0.78);
        };
        return E{part(h), part(h >> 20)};
    } else {
        const double x = static_cast<double>(h % 2001) - 1000;
        if (for_product) return static_cast<E>((h & (1u << 20) ? 1 : -1) * (1 + x / 2500));
        return static_cast<E>(static_cast<float>(x / 64));
    }
}

/// Memory for n elements, also of bool.
template <Scalar E>
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t n) : elements_{new E[n == 0 ? 1 : n]()}, size_{n} {}
    /// What `rank` brings along.
    Buffer(int rank, std::size_t n, bool for_product = false) : Buffer(n) {
        for (std::size_t i = 0; i < n; ++i) elements_[i] = value<E>(rank, i, for_product);
    }

    E& operator[](std::size_t i) { return elements_[i]; }
    std::size_t size() const { return size_; }
    std::span<E> span() const { return {elements_.get(), size_}; }

private:
    std::unique_ptr<E[]> elements_;
    std::size_t size_ = 0;
};

/// The relative error allowed per rank.
template <Scalar E>
constexpr double tolerance() {
    if constexpr (std::same_as<E, float16>) return 2e-3;
    else if constexpr (std::same_as<E, bfloat16>) return 1.6e-2;
    else if constexpr (hvd::detail::ComplexScalar<E>) return sizeof(E) == 8 ? 1e-6 : 1e-14;
    else if constexpr (std::same_as<E, float>) return 1e-6;
    else if constexpr (std::same_as<E, double>) return 1e-14;
    else return 0;
}

namespace detail {

/// What a reference is computed in.
template <class E, class Op>
struct ReferenceOf {
    using type = double;
};
template <class E, class Op>
    requires(std::integral<E> && !std::same_as<Op, Average>)
struct ReferenceOf<E, Op> {
    using type = E;  // wraps as the operation does
};
template <class E, class Op>
    requires hvd::detail::ComplexScalar<E>
struct ReferenceOf<E, Op> {
    using type = std::complex<double>;
};
template <class E>
    requires hvd::detail::ComplexScalar<E>
struct ReferenceOf<E, Product> {
    using type = E;  // so that two factors give the same bits
};

inline double magnitude(double x) { return std::abs(x); }
template <class F>
double magnitude(const std::complex<F>& x) {
    return static_cast<double>(std::abs(x));
}
template <class E>
    requires(std::integral<E> || hvd::detail::Float16Scalar<E> || std::same_as<E, float>)
double magnitude(const E& x) { return std::abs(static_cast<double>(x)); }

}  // namespace detail

/// The reduction of the values of `ranks` at one index, and how far from it a result may be.
template <Scalar E, class Op>
struct Expected {
    E result;
    double slack;

    Expected(int ranks, std::size_t index) {
        using R = typename detail::ReferenceOf<E, Op>::type;
        constexpr bool is_product = std::same_as<Op, Product>;
        constexpr bool is_order = std::same_as<Op, Min> || std::same_as<Op, Max>;
        R total = static_cast<R>(value<E>(0, index, is_product));
        double size = detail::magnitude(total);
        for (int r = 1; r < ranks; ++r) {
            const R x = static_cast<R>(value<E>(r, index, is_product));
            total = Op{}(total, x);
            size = is_product ? size * detail::magnitude(x) : size + detail::magnitude(x);
        }
        if constexpr (std::same_as<Op, Average>) {
            total /= static_cast<double>(ranks);
            size /= ranks;
        }
        result = round_to(total);
        slack = ranks <= 2 || is_order ? 0 : tolerance<E>() * ranks * size;
    }

    bool is(const E& got) const {
        if constexpr (std::integral<E>) return got == result;
        else if constexpr (hvd::detail::ComplexScalar<E>)
            return got == result || static_cast<double>(std::abs(got - result)) <= slack;
        else return got == result || std::abs(static_cast<double>(got) - static_cast<double>(result)) <= slack;
    }

private:
    template <class R>
    static E round_to(const R& x) {
        if constexpr (hvd::detail::ComplexScalar<E>) {
            using Part = typename E::value_type;
            return E{static_cast<Part>(x.real()), static_cast<Part>(x.imag())};
        } else {
            return static_cast<E>(x);  // toward zero for integers
        }
    }
};

/// A number that is equal for equal bits.
inline std::uint64_t hash_of(const void* data, std::size_t bytes) {
    std::uint64_t h = 14695981039346656037u;
    const auto* at = static_cast<const unsigned char*>(data);
    for (; bytes >= 8; bytes -= 8, at += 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        h = (h ^ word) * 1099511628211u;
        h ^= h >> 29;
    }
    for (; bytes > 0; --bytes, ++at) h = (h ^ *at) * 1099511628211u;
    return h;
}

}  // namespace hvd::testing
