// The 16-bit floats, every bit pattern of them, against a slow conversion that shares nothing with the fast one.
#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include <hvd/core/float16.hpp>

using hvd::bfloat16;
using hvd::float16;

namespace {

template <class T>
double value_of(std::uint16_t bits) {
    const int mantissa = bits & ((1 << T::mantissa_bits) - 1);
    const int exponent = (bits & 0x7fff) >> T::mantissa_bits;
    const int largest = 2 * T::exponent_bias + 1;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == largest) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    const int shift = (exponent == 0 ? 1 : exponent) - T::exponent_bias - T::mantissa_bits;
    return sign * std::ldexp(mantissa + (exponent == 0 ? 0 : 1 << T::mantissa_bits), shift);
}

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

template <class T>
std::uint16_t quiet_nan_bits(std::uint16_t bits) {
    return static_cast<std::uint16_t>(bits | (1 << (T::mantissa_bits - 1)));
}

// The neighbours of every finite value: what lies below, on and above the middle of two rounds as it should.
template <class T>
void check_middles() {
    const auto infinity = std::numeric_limits<T>::infinity().bits();
    int wrong = 0;
    for (std::uint16_t low = 0; low < infinity; ++low) {
        const auto high = static_cast<std::uint16_t>(low + 1);
        const double below = value_of<T>(low);
        // Infinity takes the place of the value that would come next.
        const double above = high == infinity ? std::ldexp(1.0, T::exponent_bias + 1) : value_of<T>(high);
        const double exact = (below + above) / 2;
        const auto middle = static_cast<float>(exact);
        const std::uint16_t even = (low & 1) == 0 ? low : high;
        const std::uint16_t sign = 0x8000;
        const auto minus = [&](std::uint16_t bits) { return static_cast<std::uint16_t>(bits | sign); };
        wrong += static_cast<double>(middle) != exact;
        wrong += T(middle).bits() != even;
        wrong += T(-middle).bits() != minus(even);
        wrong += T(std::nextafter(middle, 0.0F)).bits() != low;
        wrong += T(std::nextafter(middle, std::numeric_limits<float>::infinity())).bits() != high;
        wrong += T(static_cast<float>(below)).bits() != low;
        // From double: one rounding, though a float would be on the middle.
        wrong += T(exact).bits() != even;
        wrong += T(std::nextafter(exact, 0.0)).bits() != low;
        wrong += T(std::nextafter(exact, 1e300)).bits() != high;
        wrong += T(-std::nextafter(exact, 0.0)).bits() != minus(low);
        wrong += T(-std::nextafter(exact, 1e300)).bits() != minus(high);
    }
    CHECK(wrong == 0);
}

template <class T>
void check_all_patterns() {
    int wrong = 0;
    for (int i = 0; i < 65536; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        const T x = T::from_bits(bits);
        const double expected = value_of<T>(bits);
        wrong += x.bits() != bits;
        if (std::isnan(expected)) {
            wrong += !std::isnan(static_cast<float>(x)) || !std::isnan(static_cast<double>(x));
            wrong += std::signbit(static_cast<float>(x)) != ((bits & 0x8000) != 0);
            wrong += T(static_cast<float>(x)).bits() != quiet_nan_bits<T>(bits);
            wrong += x == x;
        } else {
            const auto wide = static_cast<float>(x);
            wrong += bits_of(wide) != bits_of(static_cast<float>(expected));
            wrong += static_cast<double>(x) != expected;
            wrong += T(wide).bits() != bits;
            wrong += T(expected).bits() != bits;
            wrong += !(x == x);
        }
    }
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("float16: all bit patterns, both ways", T, float16, bfloat16) { check_all_patterns<T>(); }

TEST_CASE_TEMPLATE("float16: ties go to even, all others to the nearest", T, float16, bfloat16) { check_middles<T>(); }

TEST_CASE("float16: overflow, underflow, NaN") {
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(float16(65504.0F).bits() == 0x7bff);
    CHECK(float16(65519.0F).bits() == 0x7bff);
    CHECK(float16(65520.0F).bits() == 0x7c00);
    CHECK(float16(1e30F).bits() == 0x7c00);
    CHECK(float16(-1e30).bits() == 0xfc00);
    CHECK(float16(1e300).bits() == 0x7c00);
    CHECK(float16(-infinity).bits() == 0xfc00);
    CHECK(float16(std::numeric_limits<double>::infinity()).bits() == 0x7c00);
    CHECK(float16(std::ldexp(1.0F, -24)).bits() == 1);
    CHECK(float16(std::ldexp(1.0F, -25)).bits() == 0);
    CHECK(float16(std::ldexp(1.0001F, -25)).bits() == 1);
    CHECK(float16(1e-30F).bits() == 0);
    CHECK(float16(-1e-300).bits() == 0x8000);
    CHECK(float16(-0.0F).bits() == 0x8000);
    CHECK(bfloat16(std::numeric_limits<float>::max()).bits() == 0x7f80);
    CHECK(bfloat16(1e300).bits() == 0x7f80);
    CHECK(bfloat16(-1e300).bits() == 0xff80);
    CHECK(bfloat16(std::numeric_limits<float>::denorm_min()).bits() == 0);
    CHECK(bfloat16(std::ldexp(1.0F, -133)).bits() == 1);

    // NaN stays NaN also where the payload has no place, and becomes quiet.
    CHECK(float16(std::bit_cast<float>(0x7f800001U)).bits() == 0x7e00);
    CHECK(float16(std::bit_cast<float>(0xffc02000U)).bits() == 0xfe01);
    CHECK(bfloat16(std::bit_cast<float>(0x7f800001U)).bits() == 0x7fc0);
    CHECK(bfloat16(std::bit_cast<float>(0xffffffffU)).bits() == 0xffff);
    CHECK(std::isnan(static_cast<float>(float16(std::nan("")))));
    CHECK(std::isnan(static_cast<float>(bfloat16(std::nan("")))));
}

TEST_CASE("float16: from and to other types") {
    CHECK(float16(3).bits() == 0x4200);
    CHECK(float16(2049).bits() == 0x6800);
    CHECK(float16(2051LL).bits() == 0x6802);
    CHECK(float16(true).bits() == 0x3c00);
    CHECK(bfloat16(257U).bits() == 0x4380);
    CHECK(bfloat16(16843009).bits() == 0x4b81);  // as a float it would be a tie, and go down
    CHECK(static_cast<int>(float16(-2.75F)) == -2);
    CHECK(static_cast<bool>(float16(0.5F)));
    CHECK(static_cast<long long>(bfloat16(1024)) == 1024);
    CHECK(static_cast<bfloat16>(float16(1.5F)).bits() == bfloat16(1.5F).bits());
    CHECK(static_cast<float16>(bfloat16(1.5F)).bits() == float16(1.5F).bits());
    CHECK(!std::is_convertible_v<float, float16>);
    CHECK(!std::is_convertible_v<float16, float>);
    CHECK(float16{}.bits() == 0);
    CHECK(std::is_trivially_default_constructible_v<bfloat16>);
    CHECK(std::is_standard_layout_v<float16>);
}

TEST_CASE_TEMPLATE("float16: comparison and arithmetic", T, float16, bfloat16) {
    const T one(1.0F);
    const T two(2.0F);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    CHECK(one < two);
    CHECK(two >= one);
    CHECK(one != two);
    CHECK(T(0.0F) == T(-0.0F));
    CHECK_FALSE(nan == nan);
    CHECK(nan != nan);
    CHECK_FALSE(nan < one);
    CHECK_FALSE(nan >= one);
    CHECK((nan <=> one) == std::partial_ordering::unordered);
    CHECK(one + two == T(3));
    CHECK(one - two == T(-1));
    CHECK(two * two == T(4));
    CHECK(one / two == T(0.5F));
    CHECK((-one).bits() == T(-1).bits());
    CHECK((-T(0.0F)).bits() == 0x8000);
    CHECK((+two).bits() == two.bits());
    T x = one;
    x += two;
    CHECK(x == T(3));
    x *= x;
    CHECK(x == T(9));
    x -= one;
    CHECK(x == T(8));
    x /= two;
    CHECK(x == T(4));
    static_assert(T(1.0F) + T(2.0F) == T(3.0F));
}

TEST_CASE_TEMPLATE("float16: numeric_limits", T, float16, bfloat16) {
    using Limits = std::numeric_limits<T>;
    static_assert(Limits::is_specialized && Limits::is_iec559 && !Limits::is_integer);
    CHECK(static_cast<double>(Limits::max()) == value_of<T>(Limits::max().bits()));
    CHECK(static_cast<float>(Limits::max()) < static_cast<float>(Limits::infinity()));
    CHECK(Limits::lowest() == -Limits::max());
    CHECK(static_cast<double>(Limits::min()) == std::ldexp(1.0, Limits::min_exponent - 1));
    CHECK(static_cast<double>(Limits::denorm_min()) == std::ldexp(1.0, Limits::min_exponent - Limits::digits));
    CHECK(static_cast<double>(Limits::epsilon()) == std::ldexp(1.0, 1 - Limits::digits));
    CHECK(T(1) + Limits::epsilon() > T(1));
    CHECK(std::isinf(static_cast<float>(Limits::infinity())));
    CHECK(std::isnan(static_cast<float>(Limits::quiet_NaN())));
    CHECK(std::isnan(static_cast<float>(Limits::signaling_NaN())));
    CHECK(Limits::signaling_NaN().bits() != Limits::quiet_NaN().bits());
}

TEST_CASE("float16: the figures of numeric_limits") {
    using Half = std::numeric_limits<float16>;
    CHECK(static_cast<float>(Half::max()) == 65504.0F);
    CHECK(Half::digits == 11);
    CHECK(Half::digits10 == 3);
    CHECK(Half::max_digits10 == 5);
    CHECK(Half::max_exponent == 16);
    CHECK(Half::max_exponent10 == 4);
    CHECK(Half::min_exponent == -13);
    CHECK(Half::min_exponent10 == -4);
    using Brain = std::numeric_limits<bfloat16>;
    CHECK(Brain::digits == 8);
    CHECK(Brain::digits10 == 2);
    CHECK(Brain::max_digits10 == 4);
    CHECK(Brain::max_exponent == 128);
    CHECK(Brain::max_exponent10 == 38);
    CHECK(Brain::min_exponent == -125);
    CHECK(Brain::min_exponent10 == -37);
}

#if defined(__x86_64__)
namespace {

typedef float Floats [[gnu::vector_size(32)]];
typedef short Halves [[gnu::vector_size(16)]];

[[gnu::target("avx2,f16c")]] int differences_to_the_processor() {
    int wrong = 0;
    for (int i = 0; i < 65536; ++i) {
        const auto half = static_cast<short>(i);
        const Floats wide = __builtin_ia32_vcvtph2ps256(Halves{half, half, half, half, half, half, half, half});
        const auto x = float16::from_bits(static_cast<std::uint16_t>(i));
        wrong += bits_of(wide[0]) != bits_of(static_cast<float>(x));
    }
    // A step that is prime to 2^32 meets all exponents and all kinds of low bits.
    for (std::uint64_t i = 0; i < (1ULL << 32); i += 5003) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
        const Halves narrow = __builtin_ia32_vcvtps2ph256(Floats{x, x, x, x, x, x, x, x}, 0);
        wrong += static_cast<std::uint16_t>(narrow[0]) != float16(x).bits();
    }
    return wrong;
}

}  // namespace

TEST_CASE("float16: the same as the processor's own conversion") {
    if (__builtin_cpu_supports("avx2")) CHECK(differences_to_the_processor() == 0);
}
#endif
