// The two 16-bit floating point types: `float16` (IEEE 754 binary16) and `bfloat16` (the upper half
// of a float). They only store; every calculation is done in float and rounded to nearest even.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace hvd {

// Not in detail itself: a base class makes its namespace one where unqualified calls are looked up.
namespace detail::float16_base {

/// Rounds a double to a float such that a second rounding, to at most 22 bits, is the correct one:
/// what is not exact gets an odd last bit, so that it is never taken for a tie ("round to odd").
constexpr float round_to_odd(double value) noexcept {
    constexpr double largest = static_cast<double>(std::numeric_limits<float>::max());
    if (value != value) return static_cast<float>(value);
    if (value > largest) value = largest;  // rounds to infinity in the 16-bit types
    if (value < -largest) value = -largest;
    const float nearest = static_cast<float>(value);
    const double back = static_cast<double>(nearest);
    if (back == value) return nearest;
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    const bool away_from_zero = (value < 0) ? back < value : back > value;
    if (away_from_zero) --bits;
    return std::bit_cast<float>(bits | 1U);
}

/// What the 16-bit types have in common: a sign, `ExponentBits` of exponent, the rest mantissa.
template <class Derived, int ExponentBits>
struct SmallFloat {
    static constexpr int mantissa_bits = 15 - ExponentBits;
    static constexpr int exponent_bias = (1 << (ExponentBits - 1)) - 1;

    SmallFloat() = default;
    constexpr explicit SmallFloat(float value) noexcept : bits_(narrow(value)) {}

    /// From any other arithmetic type, also rounded only once (integers from 2^53 on excepted).
    template <class A>
        requires std::is_arithmetic_v<A>
    constexpr explicit SmallFloat(A value) noexcept : bits_(narrow(round_to_odd(static_cast<double>(value)))) {}

    /// From the other 16-bit type.
    template <class Other, int Bits>
        requires(Bits != ExponentBits)
    constexpr explicit SmallFloat(const SmallFloat<Other, Bits>& value) noexcept
        : bits_(narrow(static_cast<float>(value))) {}

    template <class A>
        requires std::is_arithmetic_v<A>
    constexpr explicit operator A() const noexcept { return static_cast<A>(widen(bits_)); }

    static constexpr Derived from_bits(std::uint16_t bits) noexcept {
        Derived result{};
        result.bits_ = bits;
        return result;
    }
    constexpr std::uint16_t bits() const noexcept { return bits_; }

    friend constexpr bool operator==(const Derived& a, const Derived& b) noexcept {
        return static_cast<float>(a) == static_cast<float>(b);
    }
    friend constexpr std::partial_ordering operator<=>(const Derived& a, const Derived& b) noexcept {
        return static_cast<float>(a) <=> static_cast<float>(b);
    }

    friend constexpr Derived operator+(Derived a, Derived b) noexcept {
        return Derived(static_cast<float>(a) + static_cast<float>(b));
    }
    friend constexpr Derived operator-(Derived a, Derived b) noexcept {
        return Derived(static_cast<float>(a) - static_cast<float>(b));
    }
    friend constexpr Derived operator*(Derived a, Derived b) noexcept {
        return Derived(static_cast<float>(a) * static_cast<float>(b));
    }
    friend constexpr Derived operator/(Derived a, Derived b) noexcept {
        return Derived(static_cast<float>(a) / static_cast<float>(b));
    }
    friend constexpr Derived operator+(Derived a) noexcept { return a; }
    friend constexpr Derived operator-(Derived a) noexcept {
        return from_bits(static_cast<std::uint16_t>(a.bits() ^ 0x8000U));
    }
    friend constexpr Derived& operator+=(Derived& a, Derived b) noexcept { return a = a + b; }
    friend constexpr Derived& operator-=(Derived& a, Derived b) noexcept { return a = a - b; }
    friend constexpr Derived& operator*=(Derived& a, Derived b) noexcept { return a = a * b; }
    friend constexpr Derived& operator/=(Derived& a, Derived b) noexcept { return a = a / b; }

private:
    // A float has 23 bits of mantissa and a bias of 127.
    static constexpr int dropped_bits = 23 - mantissa_bits;
    static constexpr std::uint32_t infinity = ((1U << ExponentBits) - 1U) << mantissa_bits;
    static constexpr std::uint32_t quiet_bit = 1U << (mantissa_bits - 1);
    static constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - exponent_bias) << 23;

    /// Drops the lowest `count` bits (1..31), rounding to nearest even; a carry out of the mantissa
    /// moves on into the exponent, up to infinity, as it should.
    static constexpr std::uint32_t shift_rounded(std::uint32_t value, int count) noexcept {
        const std::uint32_t odd = (value >> count) & 1U;
        return (value + ((1U << (count - 1)) - 1U) + odd) >> count;
    }

    static constexpr std::uint16_t narrow(float value) noexcept {
        const auto all = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = (all >> 16) & 0x8000U;
        const std::uint32_t magnitude = all & 0x7fffffffU;
        std::uint32_t result = 0;
        if (magnitude > 0x7f800000U) {  // NaN: as much of the payload as there is room for, quiet
            result = infinity | quiet_bit | ((magnitude >> dropped_bits) & (quiet_bit - 1U));
        } else if (magnitude >= rebias + (infinity << dropped_bits)) {
            result = infinity;
        } else if (magnitude >= rebias + (1U << 23) || rebias == 0) {
            result = shift_rounded(magnitude - rebias, dropped_bits);
        } else {  // subnormal: the mantissa, its leading one written out, in units of the least value
            const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
            const int shift = 127 - exponent_bias + dropped_bits + 1 - static_cast<int>(magnitude >> 23);
            result = shift > 24 ? 0U : shift_rounded(mantissa, shift);
        }
        return static_cast<std::uint16_t>(sign | result);
    }

    static constexpr float widen(std::uint16_t bits) noexcept {
        const std::uint32_t sign = (bits & 0x8000U) << 16;
        const std::uint32_t magnitude = bits & 0x7fffU;
        std::uint32_t result = magnitude << dropped_bits;
        if (rebias == 0) return std::bit_cast<float>(sign | result);  // the upper half of a float already
        if (magnitude > infinity) {
            result |= 0x7fc00000U;
        } else if (magnitude == infinity) {
            result = 0x7f800000U;
        } else if (magnitude >= (1U << mantissa_bits)) {
            result += rebias;
        } else if (magnitude != 0) {  // subnormal here, but normal as a float
            const int shift = std::countl_zero(magnitude) - (31 - mantissa_bits);
            result = rebias + (magnitude << (dropped_bits + shift)) - (static_cast<std::uint32_t>(shift) << 23);
        }
        return std::bit_cast<float>(sign | result);
    }

    std::uint16_t bits_;
};

}  // namespace detail::float16_base

/// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa, largest value 65504.
struct float16 : detail::float16_base::SmallFloat<float16, 5> {
    using SmallFloat::SmallFloat;
};

/// bfloat16: the range of a float with 7 bits of mantissa.
struct bfloat16 : detail::float16_base::SmallFloat<bfloat16, 8> {
    using SmallFloat::SmallFloat;
};

static_assert(sizeof(float16) == 2 && std::is_trivially_copyable_v<float16>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);

namespace detail {

template <class T>
struct SmallFloatLimits {
    static constexpr bool is_specialized = true;
    static constexpr bool is_signed = true;
    static constexpr bool is_integer = false;
    static constexpr bool is_exact = false;
    static constexpr bool has_infinity = true;
    static constexpr bool has_quiet_NaN = true;
    static constexpr bool has_signaling_NaN = true;
    static constexpr std::float_denorm_style has_denorm = std::denorm_present;
    static constexpr bool has_denorm_loss = false;
    static constexpr std::float_round_style round_style = std::round_to_nearest;
    static constexpr bool is_iec559 = true;
    static constexpr bool is_bounded = true;
    static constexpr bool is_modulo = false;
    static constexpr int radix = 2;
    static constexpr bool traps = false;
    static constexpr bool tinyness_before = false;

    static constexpr int digits = T::mantissa_bits + 1;
    static constexpr int max_exponent = T::exponent_bias + 1;
    static constexpr int min_exponent = 2 - T::exponent_bias;
    // log10(2) is 0.30103: digits10 is that of one bit less, max_digits10 one more than all bits need.
    static constexpr int digits10 = (digits - 1) * 30103 / 100000;
    static constexpr int max_digits10 = digits * 30103 / 100000 + 2;
    static constexpr int max_exponent10 = max_exponent * 30103 / 100000;
    static constexpr int min_exponent10 = (min_exponent - 1) * 30103 / 100000;

    static constexpr T infinity() noexcept { return at(exponent_mask); }
    static constexpr T max() noexcept { return at(exponent_mask - 1U); }
    static constexpr T lowest() noexcept { return -max(); }
    static constexpr T min() noexcept { return at(1U << T::mantissa_bits); }
    static constexpr T denorm_min() noexcept { return at(1U); }
    static constexpr T quiet_NaN() noexcept { return at(exponent_mask | quiet_bit); }
    static constexpr T signaling_NaN() noexcept { return at(exponent_mask | (quiet_bit >> 1)); }
    static constexpr T epsilon() noexcept { return T(1.0F / static_cast<float>(1U << T::mantissa_bits)); }
    static constexpr T round_error() noexcept { return T(0.5F); }

private:
    static constexpr std::uint32_t exponent_mask = 0x7fffU & ~((1U << T::mantissa_bits) - 1U);
    static constexpr std::uint32_t quiet_bit = 1U << (T::mantissa_bits - 1);
    static constexpr T at(std::uint32_t bits) noexcept { return T::from_bits(static_cast<std::uint16_t>(bits)); }
};

}  // namespace detail
}  // namespace hvd

template <>
struct std::numeric_limits<hvd::float16> : hvd::detail::SmallFloatLimits<hvd::float16> {};
template <>
struct std::numeric_limits<hvd::bfloat16> : hvd::detail::SmallFloatLimits<hvd::bfloat16> {};
