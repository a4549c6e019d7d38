// The kernels, on every instruction set that this processor has, to the bit against loops written here.
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hvd/core/kernels.hpp>

using hvd::bfloat16;
using hvd::float16;
namespace detail = hvd::detail;

namespace {

constexpr std::size_t guard = 8;  // elements on both sides of the output that nobody may touch
constexpr std::array<std::size_t, 16> lengths{0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 1000, 4099};
constexpr std::array<std::size_t, 3> offsets{0, 1, 3};

// What std::vector is for all types but bool.
template <class T>
class Array {
public:
    Array() = default;
    explicit Array(std::size_t n, T value = T{}) : elements_(n, Element{value}) {}
    template <class Iterator>
    Array(Iterator begin, Iterator end) {
        for (; begin != end; ++begin) push_back(*begin);
    }
    T* data() { return &elements_.data()->value; }
    const T* data() const { return &elements_.data()->value; }
    std::size_t size() const { return elements_.size(); }
    T& operator[](std::size_t i) { return data()[i]; }
    const T& operator[](std::size_t i) const { return data()[i]; }
    void push_back(T value) { elements_.push_back(Element{value}); }

private:
    struct Element {
        T value;
    };
    std::vector<Element> elements_;
};

template <class F>
void on_every_isa(F&& f) {
    const detail::Isa before = detail::active_isa();
    for (const detail::Isa isa : {detail::Isa::portable, detail::Isa::avx2}) {
        if (isa > detail::processor_isa()) continue;
        detail::active_isa() = isa;
        CAPTURE(std::string(detail::kernel_isa()));
        f();
    }
    detail::active_isa() = before;
}

template <class T>
bool same_bits(const T& a, const T& b) {
    if constexpr (std::same_as<T, long double>) return a == b || (a != a && b != b);  // has bytes of padding
    else return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
constexpr bool is_float = std::floating_point<T> || detail::Float16Scalar<T>;

template <class T>
bool is_nan(const T& x) {
    if constexpr (is_float<T>) return std::isnan(static_cast<double>(x));
    else return false;
}

// Ordinary values, and one in eight a special one: the limits, infinities, NaNs of all kinds, both zeros, subnormals.
template <class T>
T any_value(std::mt19937_64& random) {
    const std::uint64_t bits = random();
    if constexpr (detail::ComplexScalar<T>) {
        using R = typename T::value_type;
        return T(any_value<R>(random), any_value<R>(random));
    } else if constexpr (std::same_as<T, bool>) {
        return (bits & 1) != 0;
    } else if constexpr (std::integral<T>) {
        if (bits % 8 == 0) return (bits & 8) != 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
        return static_cast<T>(bits >> 7);
    } else {
        using Limits = std::numeric_limits<T>;
        const T sign(static_cast<float>((bits & 8) != 0 ? -1 : 1));
        if (bits % 8 == 0) {
            const std::array<T, 8> special{Limits::infinity(), Limits::quiet_NaN(), T(0.0F), Limits::denorm_min(),
                                           Limits::max(),      Limits::min(),       T(1.0F), Limits::epsilon()};
            return special[(bits >> 4) % 8] * sign;
        }
        if constexpr (sizeof(T) <= sizeof bits) {
            if (bits % 128 == 1) {  // any bits at all
                T x;
                std::memcpy(&x, reinterpret_cast<const char*>(&bits) + sizeof bits - sizeof(T), sizeof(T));
                return x;
            }
        }
        return T(static_cast<float>(static_cast<double>(bits >> 16) * 0x1p-47)) * sign;
    }
}

template <class T>
Array<T> any_values(std::size_t n, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Array<T> values;
    for (std::size_t i = 0; i < n; ++i) values.push_back(any_value<T>(random));
    return values;
}

// The meaning of the operations, once more.
template <class Op, class A>
A combined(A a, A b) {
    if constexpr (std::same_as<Op, hvd::Min> || std::same_as<Op, hvd::Max>) {
        if (is_nan(a)) return a;
        if (is_nan(b)) return b;
        if constexpr (std::same_as<Op, hvd::Min>) return b < a ? b : a;
        else return a < b ? b : a;
    } else if constexpr (std::integral<A>) {
        const auto x = static_cast<unsigned long long>(a);
        const auto y = static_cast<unsigned long long>(b);
        return static_cast<A>(std::same_as<Op, hvd::Product> ? x * y : x + y);
    } else {
        if constexpr (std::same_as<Op, hvd::Product>) return a * b;
        else return a + b;
    }
}

// Equal to the bit; but which NaN a sum or product gives is the processor's choice.
template <class Op, class T>
bool as_expected(const T& result, const T& expected) {
    if constexpr (detail::ComplexScalar<T>) {
        return as_expected<Op>(result.real(), expected.real()) && as_expected<Op>(result.imag(), expected.imag());
    } else {
        const bool orders = std::same_as<Op, hvd::Min> || std::same_as<Op, hvd::Max>;
        if (!orders && is_nan(expected)) return is_nan(result);
        return same_bits(result, expected);
    }
}

enum class Alias { none, first, middle, last };

template <class T>
struct Reduction {
    std::size_t n, count, offset;
    Alias alias;
    bool streaming;
};

// One call, with every input at another misalignment; returns how many elements are wrong.
template <class T, class Op>
std::size_t wrong_elements(const Reduction<T>& r, const std::vector<Array<T>>& values, const Array<T>& expected) {
    std::vector<Array<T>> inputs;
    std::vector<const T*> pointers;
    for (std::size_t k = 0; k < r.count; ++k) {
        const std::size_t shift = guard + (r.offset * (k + 1)) % 5;
        inputs.emplace_back(shift + r.n + guard);
        if (r.n > 0) std::memcpy(static_cast<void*>(inputs[k].data() + shift), values[k].data(), r.n * sizeof(T));
        pointers.push_back(inputs[k].data() + shift);
    }
    Array<T> own(guard + r.offset + r.n + guard);
    Array<T>* target = &own;
    T* out = own.data() + guard + r.offset;
    if (r.alias != Alias::none) {
        const std::size_t k = r.alias == Alias::first ? 0 : r.alias == Alias::last ? r.count - 1 : r.count / 2;
        target = &inputs[k];
        out = const_cast<T*>(pointers[k]);
    }
    const Array<T> before = *target;
    if (r.streaming) detail::reduce_many_streaming(out, pointers.data(), r.count, r.n, Op{});
    else detail::reduce_many(out, pointers.data(), r.count, r.n, Op{});
    std::size_t wrong = 0;
    if (std::memcmp(out, expected.data(), r.n * sizeof(T)) != 0) {
        for (std::size_t i = 0; i < r.n; ++i) wrong += !as_expected<Op>(out[i], expected[i]);
    }
    const auto begin = static_cast<std::size_t>(out - target->data());
    for (std::size_t i = 0; i < begin; ++i) wrong += !same_bits((*target)[i], before[i]);
    for (std::size_t i = begin + r.n; i < target->size(); ++i) wrong += !same_bits((*target)[i], before[i]);
    return wrong;
}

template <class T, class Op>
void check_reduce() {
    using A = std::conditional_t<detail::Float16Scalar<T>, float, T>;
    constexpr std::size_t most = 17;
    std::vector<Array<T>> values;
    std::vector<Array<T>> expected;  // [count - 1]
    Array<A> so_far;
    for (std::size_t k = 0; k < most; ++k) {
        values.push_back(any_values<T>(lengths.back(), 1000 + k));
        for (std::size_t i = 0; i < lengths.back(); ++i) {
            const auto x = static_cast<A>(values[k][i]);
            if (k == 0) so_far.push_back(x);
            else so_far[i] = combined<Op>(so_far[i], x);
        }
        expected.emplace_back();
        for (std::size_t i = 0; i < lengths.back(); ++i) {
            expected[k].push_back(k == 0 ? values[0][i] : static_cast<T>(so_far[i]));
        }
    }
    on_every_isa([&] {
        std::size_t wrong = 0;
        for (const std::size_t n : lengths) {
            for (std::size_t count = 1; count <= most; ++count) {
                if (n > 17 && count > 4 && count != 8 && count != most) continue;
                for (const std::size_t offset : offsets) {
                    if (n > 17 && offset != offsets[(n + count) % offsets.size()]) continue;
                    for (const Alias alias : {Alias::none, Alias::first, Alias::middle, Alias::last}) {
                        for (const bool streaming : {false, true}) {
                            wrong += wrong_elements<T, Op>({n, count, offset, alias, streaming}, values,
                                                           expected[count - 1]);
                        }
                    }
                }
            }
            // Two at a time; out is one of them, or both are one.
            const T* a = values[0].data();
            Array<T> out(n + 1);
            detail::reduce_pair(out.data() + 1, a, values[1].data(), n, Op{});
            Array<T> left(values[0]), right(values[1]);
            detail::reduce_pair(left.data(), left.data(), right.data(), n, Op{});
            for (std::size_t i = 0; i < n; ++i) {
                wrong += !as_expected<Op>(out[i + 1], expected[1][i]);
                wrong += !as_expected<Op>(left[i], expected[1][i]);
            }
            left = values[0];
            detail::reduce_pair(right.data(), left.data(), right.data(), n, Op{});
            for (std::size_t i = 0; i < n; ++i) wrong += !as_expected<Op>(right[i], expected[1][i]);
            detail::reduce_pair(left.data(), left.data(), left.data(), n, Op{});
            for (std::size_t i = 0; i < n; ++i) {
                const auto x = static_cast<A>(a[i]);
                wrong += !as_expected<Op>(left[i], static_cast<T>(combined<Op>(x, x)));
            }
        }
        CHECK(wrong == 0);
    });
}

}  // namespace

TEST_CASE_TEMPLATE("kernels: reduce", T, float, double, float16, bfloat16, std::int8_t, std::uint8_t, std::int16_t,
                   std::uint16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
    check_reduce<T, hvd::Sum>();
    check_reduce<T, hvd::Product>();
    check_reduce<T, hvd::Min>();
    check_reduce<T, hvd::Max>();
}

TEST_CASE("kernels: reduce, the other scalars") {
    check_reduce<float, hvd::Average>();
    check_reduce<bool, hvd::Min>();
    check_reduce<bool, hvd::Max>();
    check_reduce<char, hvd::Max>();
    check_reduce<wchar_t, hvd::Sum>();
    check_reduce<char16_t, hvd::Min>();
    check_reduce<long long, hvd::Sum>();
    check_reduce<long double, hvd::Sum>();
    check_reduce<std::complex<float>, hvd::Sum>();
    check_reduce<std::complex<double>, hvd::Average>();
}

TEST_CASE("kernels: products of complex numbers") {
    // Whole numbers: compilers may contract the multiplications and additions of others.
    on_every_isa([] {
        using Z = std::complex<double>;
        const std::vector<Z> a{{1, 2}, {0, 1}, {3, 0}}, b{{3, -1}, {0, 1}, {2, 5}}, c{{2, 0}, {1, 1}, {0, 1}};
        const std::array<const Z*, 3> inputs{a.data(), b.data(), c.data()};
        std::vector<Z> out(3);
        detail::reduce_pair(out.data(), a.data(), b.data(), 3, hvd::product);
        CHECK(out == std::vector<Z>{{5, 5}, {-1, 0}, {6, 15}});
        detail::reduce_many(out.data(), inputs.data(), 3, 3, hvd::product);
        CHECK(out == std::vector<Z>{{10, 10}, {-1, -1}, {-15, 6}});
    });
}

TEST_CASE_TEMPLATE("kernels: NaN and zeros in min and max", T, float, double, float16, bfloat16) {
    using Limits = std::numeric_limits<T>;
    const T nan = Limits::quiet_NaN();
    const T minus_nan = -nan;
    const T one(1.0F), zero(0.0F), minus_zero(-0.0F), infinity = Limits::infinity();
    struct Case {
        T a, b, smaller, larger;
    };
    const std::vector<Case> cases{{nan, one, nan, nan},           {one, nan, nan, nan},
                                  {nan, minus_nan, nan, nan},     {minus_nan, nan, minus_nan, minus_nan},
                                  {nan, infinity, nan, nan},      {-infinity, minus_nan, minus_nan, minus_nan},
                                  {zero, minus_zero, zero, zero}, {minus_zero, zero, minus_zero, minus_zero},
                                  {one, infinity, one, infinity}, {infinity, -infinity, -infinity, infinity}};
    on_every_isa([&] {
        for (const Case& c : cases) {
            const std::vector<T> a(37, c.a), b(37, c.b);
            std::vector<T> smaller(37), larger(37);
            detail::reduce_pair(smaller.data(), a.data(), b.data(), 37, hvd::min);
            detail::reduce_pair(larger.data(), a.data(), b.data(), 37, hvd::max);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < 37; ++i) {
                wrong += !same_bits(smaller[i], c.smaller);
                wrong += !same_bits(larger[i], c.larger);
            }
            CHECK(wrong == 0);
        }
    });
}

TEST_CASE_TEMPLATE("kernels: 16-bit floats are rounded once", T, float16, bfloat16) {
    // Added one by one, each small value would be lost to rounding; and the sum passes beyond the largest value.
    const std::size_t count = 16;
    const std::size_t n = 40;
    const T small(static_cast<float>(std::numeric_limits<T>::epsilon()) / 4);
    std::vector<std::vector<T>> inputs(count, std::vector<T>(n, small));
    inputs[0].assign(n, T(1.0F));
    std::vector<const T*> pointers;
    for (const auto& input : inputs) pointers.push_back(input.data());
    on_every_isa([&] {
        std::vector<T> out(n);
        detail::reduce_many(out.data(), pointers.data(), count, n, hvd::sum);
        CHECK(out[0] == T(1.0F + 15.0F * static_cast<float>(small)));
        CHECK(out[n - 1] == out[0]);
        CHECK(out[0] > T(1.0F));
    });
    if constexpr (std::same_as<T, float16>) {
        const std::vector<T> a(n, T(60000)), b(n, T(60000)), c(n, T(-60000));
        const std::array<const T*, 3> large{a.data(), b.data(), c.data()};
        on_every_isa([&] {
            std::vector<T> out(n);
            detail::reduce_many(out.data(), large.data(), 3, n, hvd::sum);
            CHECK(out[0] == T(60000));
            CHECK(out[n - 1] == T(60000));
        });
    }
}

namespace {

struct Largest {  // a scalar of the user's
    float value;
    int where;
};

struct Half {
    double x;
    friend Half operator*(Half a, double f) { return {a.x * f}; }
    friend Half operator/(Half a, double f) { return {a.x / f}; }
};

}  // namespace

TEST_CASE("kernels: operations and scalars of the user's") {
    on_every_isa([] {
        const auto larger = [](Largest a, Largest b) { return b.value > a.value ? b : a; };
        const std::vector<Largest> a{{1, 0}, {5, 0}, {3, 0}}, b{{2, 1}, {4, 1}, {3, 1}}, c{{0, 2}, {9, 2}, {4, 2}};
        std::vector<Largest> out(3);
        detail::reduce_pair(out.data(), a.data(), b.data(), 3, larger);
        CHECK(out[0].where == 1);
        CHECK(out[1].where == 0);
        CHECK(out[2].where == 0);
        const std::array<const Largest*, 3> inputs{a.data(), b.data(), c.data()};
        detail::reduce_many(out.data(), inputs.data(), 3, 3, larger);
        CHECK(out[0].where == 1);
        CHECK(out[1].where == 2);
        CHECK(out[2].where == 2);
        detail::reduce_many_streaming(out.data(), inputs.data(), 1, 3, larger);
        CHECK(out[2].where == 0);

        const std::vector<int> x{12, 10}, y{10, 3}, z{7, 9};
        const std::array<const int*, 3> ints{x.data(), y.data(), z.data()};
        std::vector<int> result(2);
        // Not associative: shows the order, from left to right.
        detail::reduce_many(result.data(), ints.data(), 3, 2, [](int p, int q) { return p - q; });
        CHECK(result == std::vector<int>{-5, -2});

        const std::vector<float16> h{float16(3)};
        std::vector<float16> hout(1);
        detail::reduce_pair(hout.data(), h.data(), h.data(), 1, [](float16 p, float16 q) { return p * q; });
        CHECK(hout[0] == float16(9));

        std::vector<Half> own{{3}, {4}};
        detail::scale(own.data(), own.data(), 2, 0.5);
        detail::divide(own.data(), own.data(), 2, 0.25);
        CHECK(own[0].x == 6.0);
        CHECK(own[1].x == 8.0);
    });
}

TEST_CASE("kernels: an average wraps no signed integer") {
    // Runs under the sanitizers too.
    on_every_isa([] {
        const std::vector<int> a(9, std::numeric_limits<int>::max()), b(9, 1);
        std::vector<int> out(9);
        detail::reduce_pair(out.data(), a.data(), b.data(), 9, hvd::average);
        CHECK(out[8] == std::numeric_limits<int>::min());
        const std::vector<std::int16_t> c(9, -32768);
        std::vector<std::int16_t> product(9);
        detail::reduce_pair(product.data(), c.data(), c.data(), 9, hvd::product);
        CHECK(product[8] == 0);
    });
}

namespace {

template <class To, class From>
void check_convert(const Array<From>& in) {
    on_every_isa([&] {
        std::size_t wrong = 0;
        for (const std::size_t n : lengths) {
            for (const std::size_t offset : offsets) {
                if (n + offset > in.size()) continue;
                Array<To> out(n + 2 * guard + offset, To(1));
                To* begin = out.data() + guard + offset / 2;
                detail::convert(begin, in.data() + offset, n);
                for (std::size_t i = 0; i < n; ++i) {
                    wrong += !same_bits(begin[i], static_cast<To>(in[offset + i]));
                }
                wrong += !same_bits(begin[-1], To(1)) || !same_bits(begin[n], To(1));
            }
        }
        Array<To> out(in.size());
        detail::convert(out.data(), in.data(), in.size());
        for (std::size_t i = 0; i < in.size(); ++i) wrong += !same_bits(out[i], static_cast<To>(in[i]));
        CHECK(wrong == 0);
    });
}

}  // namespace

TEST_CASE_TEMPLATE("kernels: convert", T, float16, bfloat16) {
    Array<T> patterns;
    for (int i = 0; i < 65536; ++i) patterns.push_back(T::from_bits(static_cast<std::uint16_t>(i)));
    check_convert<float>(patterns);
    check_convert<double>(patterns);
    check_convert<T>(patterns);
    check_convert<std::conditional_t<std::same_as<T, float16>, bfloat16, float16>>(patterns);
    Array<float> floats = any_values<float>(5000, 3);
    for (std::uint64_t i = 0; i < (1ULL << 32); i += 30011) {
        floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(i)));
    }
    check_convert<T>(floats);
    check_convert<T>(any_values<double>(5000, 4));
    check_convert<T>(any_values<int>(5000, 5));
}

TEST_CASE("kernels: convert among the ordinary types") {
    check_convert<double>(any_values<float>(5000, 6));
    check_convert<std::int8_t>(any_values<std::int64_t>(5000, 7));
    check_convert<double>(any_values<std::uint64_t>(5000, 8));
    check_convert<float>(any_values<float>(5000, 9));
    check_convert<std::complex<double>>(any_values<std::complex<float>>(5000, 10));
}

namespace {

template <class T>
T scaled(T x, double factor, bool divides) {
    if constexpr (std::integral<T>) {
        const double exact = divides ? static_cast<double>(x) / factor : static_cast<double>(x) * factor;
        if (std::isnan(exact)) return 0;
        const double whole = std::trunc(exact);
        if (whole >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
        if (whole <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
        return static_cast<T>(whole);
    } else if constexpr (std::same_as<T, float>) {
        if (static_cast<double>(static_cast<float>(factor)) != factor) {
            const auto wide = static_cast<double>(x);
            return static_cast<float>(divides ? wide / factor : wide * factor);
        }
        return divides ? x / static_cast<float>(factor) : x * static_cast<float>(factor);
    } else if constexpr (detail::Float16Scalar<T>) {
        const auto wide = static_cast<float>(x);
        return T(divides ? wide / static_cast<float>(factor) : wide * static_cast<float>(factor));
    } else if constexpr (detail::ComplexScalar<T>) {
        return T(scaled(x.real(), factor, divides), scaled(x.imag(), factor, divides));
    } else {
        return divides ? x / static_cast<T>(factor) : x * static_cast<T>(factor);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("kernels: scale and divide", T, float, double, long double, float16, bfloat16, std::int8_t,
                   std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t,
                   bool, char, std::complex<float>, std::complex<double>) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Array<T> in = any_values<T>(lengths.back() + 8, 20);
    on_every_isa([&] {
        std::size_t wrong = 0;
        for (const double factor : {1.0, 2.0, 3.0, 0.1, -7.5, 1.0 / 3.0, 0.0, 1e30, 1e-300, nan}) {
            for (const bool divides : {false, true}) {
                for (const std::size_t n : lengths) {
                    for (const std::size_t offset : offsets) {
                        Array<T> out(n + 2), same(in);
                        if (divides) {
                            detail::divide(out.data() + 1, in.data() + offset, n, factor);
                            detail::divide(same.data() + offset, same.data() + offset, n, factor);
                        } else {
                            detail::scale(out.data() + 1, in.data() + offset, n, factor);
                            detail::scale(same.data() + offset, same.data() + offset, n, factor);
                        }
                        for (std::size_t i = 0; i < n; ++i) {
                            const T expected = scaled(in[offset + i], factor, divides);
                            wrong += !as_expected<hvd::Sum>(out[i + 1], expected);
                            wrong += !as_expected<hvd::Sum>(same[offset + i], expected);
                        }
                        wrong += !same_bits(out[0], T{}) || !same_bits(out[n + 1], T{});
                        wrong += !same_bits(same[offset + n], in[offset + n]);
                    }
                }
            }
        }
        CHECK(wrong == 0);
    });
}

TEST_CASE("kernels: integers are truncated toward zero and kept within their limits") {
    on_every_isa([] {
        std::vector<int> ints{7, -7, std::numeric_limits<int>::max(), std::numeric_limits<int>::min(), 0};
        detail::divide(ints.data(), ints.data(), ints.size(), 2.0);
        CHECK(ints == std::vector<int>{3, -3, 1073741823, -1073741824, 0});
        detail::scale(ints.data(), ints.data(), ints.size(), 1e10);
        const int max = std::numeric_limits<int>::max(), min = std::numeric_limits<int>::min();
        CHECK(ints == std::vector<int>{max, min, max, min, 0});
        detail::divide(ints.data(), ints.data(), ints.size(), 0.0);
        CHECK(ints == std::vector<int>{max, min, max, min, 0});
        std::vector<std::uint8_t> bytes{200, 3, 0};
        detail::scale(bytes.data(), bytes.data(), 3, 1.5);
        CHECK(bytes == std::vector<std::uint8_t>{255, 4, 0});
        detail::scale(bytes.data(), bytes.data(), 3, -0.001);
        CHECK(bytes == std::vector<std::uint8_t>{0, 0, 0});
    });
}

TEST_CASE("kernels: which variant is in use") {
    const std::string isa = detail::kernel_isa();
    CHECK((isa == "portable" || isa == "avx2"));
}
