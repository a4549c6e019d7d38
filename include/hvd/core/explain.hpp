// The doors: public functions take any type and call these first, so that a wrong one gives exactly one sentence.
// Use them nested, `if constexpr (explain_a<T>()) { if constexpr (explain_b<T>()) ... }`: && would print several.
#pragma once

#include <type_traits>

#include <hvd/core/op.hpp>
#include <hvd/core/tensor.hpp>
#include <hvd/core/tensor_list.hpp>

namespace hvd::detail {

template <class...>
inline constexpr bool never = false;

template <class T>
concept ClassWithoutTraits = (std::is_class_v<T> || std::is_union_v<T>)&&!HasTensorTraits<T>;

template <class T>
consteval bool explain_tensor() {
    using U = std::remove_cvref_t<T>;
    if constexpr (Tensor<U>) {
        return true;
    } else if constexpr (std::is_pointer_v<U>) {
        static_assert(never<U>, "hvd: a pointer does not say how many elements it has; pass std::span{pointer, count}");
    } else if constexpr (Scalar<U> || std::is_arithmetic_v<U>) {
        static_assert(never<U>, "hvd: a single number is no tensor; pass std::span{&number, 1} or an array of one");
    } else if constexpr (HasTensorTraits<U>) {
        if constexpr (!HasScalarElements<U>)
            static_assert(never<U>,
                          "hvd: value_type in tensor_traits of this type is no hvd::Scalar; use a number type, or set "
                          "hvd::enable_scalar for your own trivially copyable type");
        else if constexpr (!HasData<U>)
            static_assert(never<U>, "hvd: tensor_traits of this type lacks static value_type* data(T&); add it");
        else static_assert(never<U>, "hvd: tensor_traits of this type lacks static std::size_t size(const T&); add it");
    } else if constexpr (requires {
                             requires std::same_as<typename U::value_type, bool>;
                             typename U::allocator_type;
                         }) {
        static_assert(never<U>,
                      "hvd: std::vector<bool> packs bits and has no elements to point at; use std::vector<char> or "
                      "std::array<bool, n>");
    } else if constexpr (std::ranges::range<U>) {
        static_assert(never<U>,
                      "hvd: this range is no tensor, since its elements are not scalars in one piece of memory; use "
                      "std::vector or std::span of a number type, or specialise hvd::tensor_traits for it");
    } else {
        static_assert(
            never<U>,
            "hvd: this type is no tensor; specialise hvd::tensor_traits for it, with value_type, data and size, "
            "in the header that defines it");
    }
    return false;
}

/// A tensor which the call overwrites.
template <class T>
consteval bool explain_writable() {
    using U = std::remove_reference_t<T>;
    if constexpr (!explain_tensor<T>()) {
        return false;
    } else if constexpr (is_owning_temporary<T>) {
        static_assert(never<U>,
                      "hvd: the result would be lost with this temporary tensor; pass a named one or a std::span");
        return false;
    } else if constexpr (is_view<T>() ? !HasWritableData<U> : !WritableTensor<U>) {
        static_assert(never<U>, "hvd: this tensor is constant and cannot take the result; pass a writable one");
        return false;
    } else {
        return true;
    }
}

/// An input that must outlive an asynchronous call.
template <class T>
consteval bool explain_lasting() {
    if constexpr (!explain_tensor<T>()) {
        return false;
    } else if constexpr (is_owning_temporary<T>) {
        static_assert(never<T>,
                      "hvd: this temporary tensor would be gone before the asynchronous call ends; pass a named one");
        return false;
    } else {
        return true;
    }
}

template <class Op, class T>
consteval bool explain_op() {
    if constexpr (ReduceOperation<Op, T>) {
        return true;
    } else if constexpr (std::same_as<T, bool>) {
        static_assert(never<T>,
                      "hvd: bool can only be reduced with hvd::min (and) and hvd::max (or); use an integer type");
    } else if constexpr (ComplexScalar<T>) {
        static_assert(never<T>,
                      "hvd: complex numbers have no order and no adasum; use hvd::sum, hvd::average or hvd::product");
    } else if constexpr (BuiltinOp<Op> && BuiltinScalar<T>) {
        static_assert(never<T>,
                      "hvd: adasum needs floating-point gradients; use hvd::sum or hvd::average for integers");
    } else if constexpr (BuiltinOp<Op>) {
        static_assert(
            never<T>,
            "hvd: hvd does not know how to reduce this scalar type; pass a function T(T, T) that is associative "
            "and commutative");
    } else {
        static_assert(
            never<T>,
            "hvd: this reduce operation cannot be called as T(T, T) for the elements of the tensor; pass hvd::sum, "
            "min, max, product, average, adasum or such a function");
    }
    return false;
}

template <class A, class B>
consteval bool explain_same_scalar() {
    if constexpr (std::same_as<tensor_value_t<A>, tensor_value_t<B>>) {
        return true;
    } else {
        static_assert(never<A, B>,
                      "hvd: input and output have different element types; give the output the input's type");
        return false;
    }
}

/// A tensor that is read and one that takes the result.
template <class In, class Out>
consteval bool explain_in_and_out() {
    if constexpr (explain_tensor<In>()) {
        if constexpr (explain_writable<Out>()) return explain_same_scalar<In, Out>();
        else return false;
    } else {
        return false;
    }
}

/// The same for an asynchronous call, which both must outlive.
template <class In, class Out>
consteval bool explain_lasting_in_and_out() {
    if constexpr (explain_lasting<In>()) {
        if constexpr (explain_writable<Out>()) return explain_same_scalar<In, Out>();
        else return false;
    } else {
        return false;
    }
}

template <class L>
consteval bool explain_tensor_list() {
    if constexpr (TensorList<L>) {
        return true;
    } else {
        static_assert(
            never<L>,
            "hvd: this is no list of tensors; return a range of Tensors, or std::tie(a, b) of Tensors of different "
            "types, and specialise hvd::tensor_traits for tensor classes of your own");
        return false;
    }
}

}  // namespace hvd::detail
