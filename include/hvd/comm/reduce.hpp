// reduce: one rank gets the reduction of all ranks' tensors.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/device_reduction.hpp>
#include <hvd/comm/direct_path.hpp>
#include <hvd/comm/reduction.hpp>
#include <hvd/comm/rooted.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

template <Transport T, Scalar E, class Op>
class ReduceTask final : public StagedOperation {
public:
    ReduceTask(std::shared_ptr<Context<T>> context, std::span<E> data, int root, const Op& op, ReduceOptions options)
        : StagedOperation{3},
          context_{std::move(context)},
          channel_{context_->next_channel()},
          direct_{context_},
          device_{context_},
          data_{data},
          root_{root},
          op_{carried(op)},
          options_{options},
          rescale_{options, context_->size()} {}

private:
    using Wide = typename Rescale<E, Op>::Wide;

    std::unique_ptr<Operation> begin(int stage) override {
        if (stage == 0) {
            Call call = Call::of("reduce");
            call.elements(scalar_info<E>).count(data_.size()).template operation<Op>().scaled(options_).root(root_);
            return agree(*context_, channel_,
                         std::move(call.wrong(root_error("reduce", root_, context_->rank(), context_->size()))));
        }
        if constexpr (DeviceTransport<T>) return stage == 1 ? begin_on_device() : nullptr;
        else return begin_on_host(stage);
    }

    std::unique_ptr<Operation> begin_on_device() {
        if constexpr (reduces_on_device<T, E, Op>()) {
            return device_.in_turn(context_->transport.template device_reduce<E, Op>(
                channel_, device_.after(), DevicePiece<E>{data_.data(), data_.data(), data_.size()}, root_,
                options_.prescale * options_.postscale));
        } else {
            return nullptr;
        }
    }

    std::unique_ptr<Operation> begin_on_host(int stage) {
        if (stage == 1) {
            if constexpr (averages_in_double<E, Op>) copy_ = Loan{context_->pool, data_.size() * sizeof(double)};
            rescale_.before(wide(), data_.data(), data_.size());
            if constexpr (std::same_as<Op, Adasum>) {
                return std::make_unique<AdasumRun<T, E>>(channel_, data_, context_->pool);
            } else {
                if (direct_) {
                    DirectJob job{reinterpret_cast<std::byte*>(wide()),
                                  Layout{data_.size(), static_cast<std::size_t>(context_->size())}, Fold::of<Wide>(op_),
                                  DirectPart::Reduce};
                    job.root = root_;
                    return direct_.run(std::move(job));
                }
                return start_rooted(*context_, channel_, wide(), data_.size(), Fold::of<Wide>(op_), root_, true);
            }
        }
        if (context_->rank() == root_) rescale_.after(data_.data(), wide(), data_.size());
        return nullptr;
    }

    Wide* wide() const {
        if constexpr (averages_in_double<E, Op>) return reinterpret_cast<double*>(copy_.data());
        else return data_.data();
    }

    std::shared_ptr<Context<T>> context_;
    Channel<T> channel_;
    DirectPath<T> direct_;
    DevicePath<T> device_;
    std::span<E> data_;
    int root_;
    Carried<Op> op_;
    ReduceOptions options_;
    Rescale<E, Op> rescale_;
    Loan copy_;
};

template <class T, class A, class X, class Op>
std::unique_ptr<Operation> reduce_task(const Communicator<T, A>& comm, X& x, int root, const Op& op,
                                       ReduceOptions options) {
    using E = tensor_value_t<X>;
    if constexpr (DeviceTransport<T>) {
        bool is_possible = false;
        if constexpr (reduces_on_device<T, E, Op>())
            is_possible = T::template can_reduce<E, Op>(options.prescale * options.postscale);
        if (!is_possible)  // what is left on the other ranks does not matter
            return std::make_unique<DeviceAllreduceTask<T, A, E, Op>>(
                comm, data_of(x), std::span<E>{data_of(x), size_of(x)}, op, options,
                root_error("reduce", root, comm.rank(), comm.size()));
    }
    return std::make_unique<ReduceTask<T, E, Op>>(comm.shared_context(), std::span<E>{data_of(x), size_of(x)}, root, op,
                                                  options);
}

}  // namespace detail

/// Reduces `x` over all ranks into that of rank `root`, in place; on the other ranks its contents are unspecified
/// afterwards. Collective: the same length, type, operation and root on all ranks.
template <class T, class A, class X, class Op = Sum>
void reduce(const Communicator<T, A>& comm, X&& x, int root, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_writable<X>()) {
        if constexpr (detail::explain_op<Op, tensor_value_t<X>>()) {
            detail::require_place<T, X>();
            const auto task = detail::reduce_task(comm, x, root, op, options);
            detail::complete(comm, *task, "reduce");
        }
    }
}

/// Begins a reduce; `x` must outlive it.
template <class T, class A, class X, class Op = Sum>
Request reduce_async(const Communicator<T, A>& comm, X&& x, int root, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_writable<X>()) {
        if constexpr (detail::explain_op<Op, tensor_value_t<X>>()) {
            detail::require_place<T, X>();
            return detail::begin_async(comm, detail::reduce_task(comm, x, root, op, options), "reduce");
        }
    }
    return {};
}

}  // namespace hvd
