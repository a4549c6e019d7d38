// Which element types and operations NCCL knows, and what it calls them. Needs NCCL's header.
#pragma once

#ifdef HVD_WITH_NCCL

#include <nccl.h>

#include <concepts>
#include <type_traits>

#include <hvd/core/op.hpp>
#include <hvd/core/scalar.hpp>

namespace hvd::detail {

/// Elements of a type as NCCL sees them: `words` of `type` each.
struct NcclElement {
    ncclDataType_t type = ncclUint8;
    std::size_t words = 0;  // 0: NCCL cannot reduce it
    bool is_floating = false;
};

template <class E>
consteval NcclElement nccl_element() {
    if constexpr (std::same_as<E, float>) return {ncclFloat32, 1, true};
    else if constexpr (std::same_as<E, double>) return {ncclFloat64, 1, true};
    else if constexpr (std::same_as<E, float16>) return {ncclFloat16, 1, true};
    else if constexpr (std::same_as<E, bfloat16>) return {ncclBfloat16, 1, true};
    else if constexpr (ComplexScalar<E>) return {nccl_element<typename E::value_type>().type, 2, true};
    else if constexpr (std::integral<E>) {
        constexpr bool is_signed = std::is_signed_v<E>;
        if (sizeof(E) == 1) return {is_signed ? ncclInt8 : ncclUint8, 1, false};
        if (sizeof(E) == 4) return {is_signed ? ncclInt32 : ncclUint32, 1, false};
        if (sizeof(E) == 8) return {is_signed ? ncclInt64 : ncclUint64, 1, false};
    }
    return {};
}

/// NCCL reduces E with Op to the same result as hvd does, but for the rounding of sums. Floating-point averages and factors
/// are NCCL's; averages of integers, which hvd takes in double, are not. Its min and max pass NaN over where hvd keeps it.
template <class E, class Op>
consteval bool nccl_reduces() {
    constexpr NcclElement element = nccl_element<E>();
    if constexpr (element.words == 0) return false;
    else if constexpr (element.words == 2) return std::same_as<Op, Sum> || std::same_as<Op, Average>;
    else if constexpr (std::same_as<Op, Sum> || std::same_as<Op, Product>) return !std::same_as<E, bool>;
    else if constexpr (std::same_as<Op, Average>) return element.is_floating;
    else if constexpr (std::same_as<Op, Min> || std::same_as<Op, Max>) return !element.is_floating;
    else return false;
}

template <class Op>
consteval ncclRedOp_t nccl_operation() {
    if constexpr (std::same_as<Op, Average>) return ncclAvg;
    else if constexpr (std::same_as<Op, Product>) return ncclProd;
    else if constexpr (std::same_as<Op, Min>) return ncclMin;
    else if constexpr (std::same_as<Op, Max>) return ncclMax;
    else return ncclSum;
}

}  // namespace hvd::detail

#endif
