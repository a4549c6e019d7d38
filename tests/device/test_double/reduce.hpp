// How the test double of NCCL adds up: in rank order, 16-bit numbers in float and rounded once.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace hvd_test_double {

struct Reduction {
    ncclRedOp_t op = ncclSum;  // ncclNumOps: a sum with a factor
    double factor = 1;
};

inline std::size_t size_of(ncclDataType_t type) {
    switch (type) {
        case ncclInt8:
        case ncclUint8:
            return 1;
        case ncclFloat16:
        case ncclBfloat16:
            return 2;
        case ncclInt32:
        case ncclUint32:
        case ncclFloat32:
            return 4;
        default:
            return 8;
    }
}

/// 16-bit numbers by hand: `mantissa` bits, and the largest exponent of the type.
template <int mantissa>
struct Small {
    std::uint16_t bits = 0;
    static constexpr int exponents = 15 - mantissa, bias = (1 << (exponents - 1)) - 1;

    float value() const {
        const int exponent = (bits >> mantissa) & ((1 << exponents) - 1), fraction = bits & ((1 << mantissa) - 1);
        float magnitude;
        if (exponent == (1 << exponents) - 1) magnitude = fraction != 0 ? NAN : INFINITY;
        else if (exponent == 0) magnitude = std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa);
        else magnitude = std::ldexp(1 + std::ldexp(static_cast<float>(fraction), -mantissa), exponent - bias);
        return (bits >> 15) != 0 ? -magnitude : magnitude;
    }
    static Small round(float value) {
        const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
        constexpr auto infinity = static_cast<std::uint16_t>(((1 << exponents) - 1) << mantissa);
        if (std::isnan(value)) return {static_cast<std::uint16_t>(infinity | (1 << (mantissa - 1)))};
        const double magnitude = std::fabs(static_cast<double>(value));
        if (std::isinf(magnitude)) return {static_cast<std::uint16_t>(sign | infinity)};
        int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
        // nearbyint rounds halves to even, and a carry goes into the exponent by itself.
        const double units = std::nearbyint(std::ldexp(magnitude, mantissa - exponent));
        const auto whole =
            static_cast<std::uint32_t>(units) + (static_cast<std::uint32_t>(exponent + bias - 1) << mantissa);
        return {static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(whole, infinity))};
    }
};

template <class Number, class Wide, class Load, class Store>
void reduce_as(void* out, const std::vector<const void*>& inputs, std::size_t n, Reduction reduction, int size,
               Load load, Store store) {
    auto* result = static_cast<Number*>(out);
    const bool is_floating = std::is_floating_point_v<Wide>;
    for (std::size_t i = 0; i < n; ++i) {
        Wide total{};
        for (std::size_t r = 0; r < inputs.size(); ++r) {
            Wide x = load(static_cast<const Number*>(inputs[r])[i]);
            if (reduction.op == ncclNumOps) x = static_cast<Wide>(x * static_cast<Wide>(reduction.factor));
            if (reduction.op == ncclAvg && is_floating) x = static_cast<Wide>(x / static_cast<Wide>(size));
            if (r == 0) total = x;
            else if (reduction.op == ncclProd) total = static_cast<Wide>(total * x);
            else if (reduction.op == ncclMin) total = x < total ? x : total;
            else if (reduction.op == ncclMax) total = total < x ? x : total;
            else total = static_cast<Wide>(total + x);
        }
        if (reduction.op == ncclAvg && !is_floating) total = static_cast<Wide>(total / static_cast<Wide>(size));
        result[i] = store(total);
    }
}

template <class Number>
void reduce_plain(void* out, const std::vector<const void*>& inputs, std::size_t n, Reduction reduction, int size) {
    const auto same = [](Number x) { return x; };
    reduce_as<Number, Number>(out, inputs, n, reduction, size, same, same);
}
template <class Number>
void reduce_small(void* out, const std::vector<const void*>& inputs, std::size_t n, Reduction reduction, int size) {
    reduce_as<Number, float>(
        out, inputs, n, reduction, size, [](Number x) { return x.value(); }, [](float x) { return Number::round(x); });
}

inline void reduce(void* out, const std::vector<const void*>& inputs, std::size_t n, ncclDataType_t type,
                   Reduction reduction, int size) {
    switch (type) {
        case ncclInt8:
            return reduce_plain<std::int8_t>(out, inputs, n, reduction, size);
        case ncclUint8:
            return reduce_plain<std::uint8_t>(out, inputs, n, reduction, size);
        case ncclInt32:
            return reduce_plain<std::int32_t>(out, inputs, n, reduction, size);
        case ncclUint32:
            return reduce_plain<std::uint32_t>(out, inputs, n, reduction, size);
        case ncclInt64:
            return reduce_plain<std::int64_t>(out, inputs, n, reduction, size);
        case ncclUint64:
            return reduce_plain<std::uint64_t>(out, inputs, n, reduction, size);
        case ncclFloat32:
            return reduce_plain<float>(out, inputs, n, reduction, size);
        case ncclFloat64:
            return reduce_plain<double>(out, inputs, n, reduction, size);
        case ncclFloat16:
            return reduce_small<Small<10>>(out, inputs, n, reduction, size);
        default:
            return reduce_small<Small<7>>(out, inputs, n, reduction, size);
    }
}

inline double number_at(const void* data, ncclDataType_t type) {
    if (type == ncclFloat64) return *static_cast<const double*>(data);
    if (type == ncclFloat32) return static_cast<double>(*static_cast<const float*>(data));
    if (type == ncclFloat16) return static_cast<double>(static_cast<const Small<10>*>(data)->value());
    return static_cast<double>(static_cast<const Small<7>*>(data)->value());
}

}  // namespace hvd_test_double
