// reduce_scatter: the reduction of all ranks' tensors, each rank keeping its share of the rows.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/direct_path.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/comm/reduction.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement, then half a ring on a copy of the input.
template <Transport T, Scalar E, class Op>
class ReduceScatterTask final : public StagedOperation {
public:
    ReduceScatterTask(std::shared_ptr<Context<T>> context, Input in, Output out, const Op& op, ReduceOptions options)
        : StagedOperation{3},
          context_{std::move(context)},
          channel_{context_->next_channel()},
          direct_{context_},
          device_{context_},
          in_{std::move(in)},
          out_{out},
          op_{carried(op)},
          options_{options},
          rescale_{options, context_->size()} {
        const auto p = static_cast<std::size_t>(context_->size());
        for (std::size_t i = 0; i <= p; ++i) begin_.push_back(split_begin(in_.rows.count, p, i) * in_.rows.width);
    }

private:
    using Wide = typename Rescale<E, Op>::Wide;

    std::string device_error() const {
        if constexpr (DeviceTransport<T>) {
            if (!T::template can_reduce<E, Op>(options_.prescale * options_.postscale))
                return located("reduce_scatter", context_->rank(), context_->size(),
                               "the devices' library cannot reduce such elements so; use allreduce, which then goes by "
                               "way of host memory");
        }
        return {};
    }

    std::unique_ptr<Operation> begin(int stage) override {
        if (stage == 0) return agree(*context_, channel_, call());
        if constexpr (DeviceTransport<T>) return stage == 1 ? begin_on_device() : nullptr;
        else return begin_on_host(stage);
    }

    std::unique_ptr<Operation> begin_on_device() {
        if constexpr (reduces_on_device<T, E, Op>()) {
            return device_.in_turn(context_->transport.template device_reduce_scatter<E, Op>(
                channel_, device_.after(), static_cast<const E*>(in_.data), static_cast<E*>(out_.data()), begin_,
                options_.prescale * options_.postscale));
        } else {
            return nullptr;
        }
    }

    std::unique_ptr<Operation> begin_on_host(int stage) {
        const auto rank = static_cast<std::size_t>(context_->rank());
        if constexpr (!std::same_as<Op, Adasum>) {
            if (direct_ && rescale_.leaves_inputs()) return begin_direct(stage);
        }
        if (stage == 1) {
            copy_ = Loan{context_->pool, in_.size * sizeof(Wide)};
            rescale_.before(data(), static_cast<const E*>(in_.data), in_.size);
            if constexpr (std::same_as<Op, Adasum>)
                return std::make_unique<AdasumRun<T, E>>(channel_, std::span<E>{data(), in_.size}, context_->pool);
            else return Ring{}.start_reduce_scatter(channel_, scratch_, data(), Layout{begin_}, Fold::of<Wide>(op_));
        }
        rescale_.after(static_cast<E*>(out_.data()), data() + begin_[rank], begin_[rank + 1] - begin_[rank]);
        return nullptr;
    }

    /// From the input straight to the output.
    std::unique_ptr<Operation> begin_direct(int stage) {
        if constexpr (std::same_as<Wide, E>) {
            auto* out = static_cast<E*>(out_.data());
            if (stage == 1) {
                auto* in = static_cast<std::byte*>(const_cast<void*>(in_.data));  // not written to
                DirectJob job{in, Layout{begin_}, Fold::of<E>(op_), DirectPart::ReduceScatter};
                job.result = reinterpret_cast<std::byte*>(out);
                return direct_.run(std::move(job));
            }
            const auto rank = static_cast<std::size_t>(context_->rank());
            rescale_.after(out, out, begin_[rank + 1] - begin_[rank]);
        }
        return nullptr;
    }

    Call call() {
        const int rank = context_->rank(), size = context_->size();
        const auto p = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
        Call call = Call::of("reduce_scatter");
        call.elements(scalar_info<E>).count(in_.rows.count).trailing(in_.rows.trailing).template operation<Op>();
        call.scaled(options_).wrong(in_.error("reduce_scatter", rank, size));
        const std::size_t own = split_begin(in_.rows.count, p, r + 1) - split_begin(in_.rows.count, p, r);
        const auto place = -static_cast<std::ptrdiff_t>(begin_[r]);
        call.wrong(out_.make_room(in_.rows.shape_with(own), in_, place, "reduce_scatter", rank, size));
        return std::move(call.wrong(device_error()));
    }

    Wide* data() const { return reinterpret_cast<Wide*>(copy_.data()); }

    std::shared_ptr<Context<T>> context_;
    Channel<T> channel_;
    DirectPath<T> direct_;
    DevicePath<T> device_;
    Input in_;
    Output out_;
    Carried<Op> op_;
    ReduceOptions options_;
    Rescale<E, Op> rescale_;
    std::vector<std::size_t> begin_;  // element at which each rank's share begins
    Loan copy_;
    ScratchState scratch_{context_->pool};
};

}  // namespace detail

/// Reduces `in` over all ranks and leaves rank r the r-th share of its rows (dimension 0) in `out`: shares are equal, the
/// first ranks take one more. `in` is left as it is; `out` is resized, or long enough. Collective: equal shapes and
/// operation on all ranks.
template <class T, class A, class In, class Out, class Op = Sum>
void reduce_scatter(const Communicator<T, A>& comm, const In& in, Out&& out, const Op& op = {},
                    ReduceOptions options = {}) {
    if constexpr (detail::explain_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        if constexpr (detail::explain_op<Op, tensor_value_t<In>>()) {
            detail::ReduceScatterTask<T, tensor_value_t<In>, Op> task{comm.shared_context(), detail::Input::of(in),
                                                                      detail::Output::of(out), op, options};
            detail::complete(comm, task, "reduce_scatter");
        }
    }
}

/// Begins a reduce_scatter; both tensors must outlive it.
template <class T, class A, class In, class Out, class Op = Sum>
Request reduce_scatter_async(const Communicator<T, A>& comm, In&& in, Out&& out, const Op& op = {},
                             ReduceOptions options = {}) {
    if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        if constexpr (detail::explain_op<Op, tensor_value_t<In>>()) {
            return detail::begin_async(
                comm,
                std::make_unique<detail::ReduceScatterTask<T, tensor_value_t<In>, Op>>(
                    comm.shared_context(), detail::Input::of(in), detail::Output::of(out), op, options),
                "reduce_scatter");
        }
    }
    return {};
}

}  // namespace hvd
