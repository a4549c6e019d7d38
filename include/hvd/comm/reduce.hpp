// reduce: one rank gets the reduction of all ranks' tensors.
#pragma once

#include <memory>
#include <string>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/reduction.hpp>
#include <hvd/comm/rooted.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

template <class T, class A, Scalar E, class Op>
class ReduceTask final : public StagedOperation {
public:
    ReduceTask(const Communicator<T, A>& comm, std::span<E> data, int root, const Op& op, ReduceOptions options)
        : StagedOperation{3}, comm_{comm}, channel_{comm.context().next_channel()}, data_{data}, root_{root},
          op_{carried(op)}, rescale_{options, comm.size()} {
        call_ = Call::of("reduce").with(scalar_id<E>).with(op_id<Op>).with(std::uint64_t{data.size()});
        call_.with(static_cast<std::uint64_t>(root)).with(options.prescale).with(options.postscale);
        call_.error = root_error("reduce", root, comm.rank(), comm.size());
        if (!comm.options().checks && !call_.error.empty()) throw UsageError{call_.error};
    }

private:
    using Wide = typename Rescale<E, Op>::Wide;
    using Carried = typename Rescale<E, Op>::Carried;

    static Carried carried(const Op& op) {
        if constexpr (std::same_as<Carried, Op>) return op;
        else return {};
    }

    std::unique_ptr<Operation> begin(int stage) override {
        if (stage == 0) {
            return make_agreement(comm_.context(), channel_, call_, [n = data_.size(), root = root_] {
                return "reduce of " + std::to_string(n) + " " + std::string{scalar_name<E>()} + " with " +
                       std::string{op_name<Op>()} + " to rank " + std::to_string(root);
            });
        }
        if (stage == 1) {
            if constexpr (averages_in_double<E, Op>) copy_ = Loan{comm_.context().pool, data_.size() * sizeof(double)};
            rescale_.before(wide(), data_.data(), data_.size());
            if constexpr (std::same_as<Op, Adasum>) {
                return std::make_unique<AdasumRun<T, E>>(channel_, data_, comm_.context().pool);
            } else {
                return start_rooted(comm_.context(), channel_, wide(), data_.size(), Fold::of<Wide>(op_), root_, true);
            }
        }
        if (comm_.rank() == root_) rescale_.after(data_.data(), wide(), data_.size());
        return nullptr;
    }

    Wide* wide() const {
        if constexpr (averages_in_double<E, Op>) return reinterpret_cast<double*>(copy_.data());
        else return data_.data();
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    std::span<E> data_;
    int root_;
    Carried op_;
    Rescale<E, Op> rescale_;
    Call call_;
    Loan copy_;
};

template <class T, class A, class X, class Op>
std::unique_ptr<Operation> reduce_task(const Communicator<T, A>& comm, X& x, int root, const Op& op, ReduceOptions options) {
    using E = tensor_value_t<X>;
    return std::make_unique<ReduceTask<T, A, E, Op>>(comm, std::span<E>{data_of(x), size_of(x)}, root, op, options);
}

}  // namespace detail

/// Reduces `x` over all ranks into that of rank `root`, in place; on the other ranks its contents are unspecified
/// afterwards. Collective: the same length, type, operation and root on all ranks.
template <class T, class A, class X, class Op = Sum>
void reduce(const Communicator<T, A>& comm, X&& x, int root, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_writable<X>()) {
        if constexpr (detail::explain_op<Op, tensor_value_t<X>>()) {
            const auto task = detail::reduce_task(comm, x, root, op, options);
            detail::complete(comm, *task, "reduce");
        }
    }
}

/// Begins a reduce; `x` must outlive it.
template <class T, class A, class X, class Op = Sum>
Request reduce_async(const Communicator<T, A>& comm, X&& x, int root, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_writable<X>()) {
        if constexpr (detail::explain_op<Op, tensor_value_t<X>>())
            return detail::begin_async(comm, detail::reduce_task(comm, x, root, op, options), "reduce");
    }
    return {};
}

}  // namespace hvd
