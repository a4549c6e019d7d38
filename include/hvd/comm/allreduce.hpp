// allreduce: every rank gets the reduction of all ranks' tensors. Blocking and asynchronous, one tensor or a group.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/by_host.hpp>
#include <hvd/comm/group.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// One tensor of a list.
template <class X, class Op>
consteval bool explain_element() {
    if constexpr (is_view<X>() ? !HasWritableData<X> : std::is_const_v<std::remove_reference_t<X>>) {
        static_assert(never<X>,
                      "hvd: this list has constant tensors, which cannot take the result; pass writable ones");
        return false;
    } else {
        return explain_op<Op, tensor_value_t<X>>();
    }
}

/// A tensor or a list of tensors that takes the result of a reduction with Op.
template <class X, class Op>
consteval bool explain_in_place() {
    using U = std::remove_cvref_t<X>;
    if constexpr (TensorList<U>) {
        if constexpr (TensorTuple<U>) {
            return []<std::size_t... I>(std::index_sequence<I...>) {
                return (explain_element<std::tuple_element_t<I, U>, Op>() && ...);
            }
            (std::make_index_sequence<std::tuple_size_v<U>>{});
        } else {
            return explain_element<std::ranges::range_reference_t<std::remove_reference_t<X>>, Op>();
        }
    } else {
        if constexpr (explain_writable<X>()) return explain_op<Op, tensor_value_t<X>>();
        else return false;
    }
}

template <class T, class A, class X, class Op>
void allreduce_in_place(const Communicator<T, A>& comm, X& x, const Op& op, ReduceOptions options) {
    require_place_or_host<T, X>();
    if constexpr (goes_by_host<T, X>) {
        with_host_twins<device::has_host_copy>(x, [&](auto&& host) { allreduce_in_place(comm, host, op, options); });
    } else if constexpr (Tensor<X>) {
        AllreduceOf<T, A, tensor_value_t<X>, Op> task{
            comm, data_of(x), std::span<tensor_value_t<X>>{data_of(x), size_of(x)}, op, options};
        complete(comm, task, "allreduce");
    } else {
        GroupTask<T, A, Op> task{comm, x, op, options};
        complete(comm, task, "allreduce");
    }
}

template <class T, class A, class In, class Out, class Op>
void allreduce_into(const Communicator<T, A>& comm, const In& in, Out& out, const Op& op, ReduceOptions options) {
    require_place<T, In, Out>();
    with_elements(comm, in, out, "allreduce", [&]<class E>(const E* from, std::span<E> to, std::string error) {
        AllreduceOf<T, A, E, Op> task{comm, from, to, op, options, std::move(error)};
        complete(comm, task, "allreduce");
    });
}

}  // namespace detail

/// Reduces `x`, a tensor or a list of tensors, over all ranks of `comm`; every rank gets the result in place. Collective:
/// all ranks call it with equal lengths, element types, operation and options. A list is reduced as a whole, in few
/// messages. `op` is hvd::sum, average, min, max, product, adasum, or any associative and commutative T(T, T).
/// Throws MismatchError on all ranks when their calls differ, and TransportError when a rank is gone.
template <class T, class A, class X, class Op = Sum>
    requires(!Tensor<Op>)
void allreduce(const Communicator<T, A>& comm, X&& x, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_in_place<X, Op>()) detail::allreduce_in_place(comm, x, op, options);
}

/// The same with hvd::sum.
template <class T, class A, class X>
void allreduce(const Communicator<T, A>& comm, X&& x, ReduceOptions options) {
    allreduce(comm, std::forward<X>(x), sum, options);
}

/// Reduces `in` of all ranks into `out`, which is resized where its type can be and must be long enough otherwise; `in` is
/// left as it is. Collective, as above.
template <class T, class A, class In, class Out, class Op = Sum>
    requires(Tensor<Out> && !Tensor<Op>)
void allreduce(const Communicator<T, A>& comm, const In& in, Out&& out, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_tensor<In>()) {
        if constexpr (detail::explain_writable<Out>()) {
            if constexpr (detail::explain_same_scalar<In, Out>()) {
                if constexpr (detail::explain_op<Op, tensor_value_t<Out>>())
                    detail::allreduce_into(comm, in, out, op, options);
            }
        }
    }
}

/// Begins the reduction of `x` in place and returns at once. `x` must outlive the operation and is not to be touched
/// before it ends.
template <class T, class A, class X, class Op = Sum>
    requires(!Tensor<Op>)
Request allreduce_async(const Communicator<T, A>& comm, X&& x, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_in_place<X, Op>()) {
        if constexpr (Tensor<X> && detail::goes_by_host<T, X>) {
            auto twin = detail::host_twin<device::has_host_copy>(x);
            return detail::begin_async(comm,
                                       std::make_unique<detail::ByHost<decltype(twin)>>(
                                           std::move(twin),
                                           [&]<class E>(std::span<E> host) -> std::unique_ptr<detail::Operation> {
                                               return std::make_unique<detail::AllreduceOf<T, A, E, Op>>(
                                                   comm, host.data(), host, op, options);
                                           }),
                                       "allreduce");
        } else if constexpr (Tensor<X>) {
            detail::require_place<T, X>();
            using E = tensor_value_t<X>;
            auto* data = detail::data_of(x);
            return detail::begin_async(comm,
                                       std::make_unique<detail::AllreduceOf<T, A, E, Op>>(
                                           comm, data, std::span<E>{data, detail::size_of(x)}, op, options),
                                       "allreduce");
        } else {
            detail::require_place<T, X>();
            return detail::begin_async(comm, std::make_unique<detail::GroupTask<T, A, Op>>(comm, x, op, options),
                                       "allreduce");
        }
    } else {
        return {};
    }
}

/// Begins the reduction of `in` into `out`; both must outlive the operation.
template <class T, class A, class In, class Out, class Op = Sum>
    requires(Tensor<Out> && !Tensor<Op>)
Request allreduce_async(const Communicator<T, A>& comm, In&& in, Out&& out, const Op& op = {},
                        ReduceOptions options = {}) {
    if constexpr (detail::explain_lasting<In>()) {
        if constexpr (detail::explain_writable<Out>()) {
            if constexpr (detail::explain_same_scalar<In, Out>()) {
                if constexpr (detail::explain_op<Op, tensor_value_t<Out>>()) {
                    detail::require_place<T, In, Out>();
                    return detail::with_elements(
                        comm, in, out, "allreduce", [&]<class E>(const E* from, std::span<E> to, std::string error) {
                            return detail::begin_async(comm,
                                                       std::make_unique<detail::AllreduceOf<T, A, E, Op>>(
                                                           comm, from, to, op, options, std::move(error)),
                                                       "allreduce");
                        });
                }
            }
        }
    }
    return {};
}

}  // namespace hvd
