// reduce_scatter: the reduction of all ranks' tensors, each rank keeping its share of the rows.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/comm/reduction.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement, then half a ring on a copy of the input.
template <class T, class A, class In, class Out, class Op>
class ReduceScatterTask final : public StagedOperation {
public:
    ReduceScatterTask(const Communicator<T, A>& comm, const In& in, Out& out, const Op& op, ReduceOptions options)
        : StagedOperation{3}, comm_{comm}, channel_{comm.context().next_channel()}, in_{const_data_of(in)},
          rows_{rows_of(in)}, out_{out}, op_{carried(op)}, rescale_{options, comm.size()} {
        const auto p = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
        for (std::size_t i = 0; i <= p; ++i) begin_.push_back(split_begin(rows_.count, p, i) * rows_.width);
        call_ = Call::of("reduce_scatter").with(scalar_id<E>).with(op_id<Op>).with(std::uint64_t{rows_.count});
        add_trailing(call_, rows_);
        call_.with(options.prescale).with(options.postscale);
        call_.error = shape_error(in, rows_, "reduce_scatter", comm.rank(), comm.size());
        const std::size_t own_rows = split_begin(rows_.count, p, r + 1) - split_begin(rows_.count, p, r);
        if (call_.error.empty())
            call_.error = make_room(out, rows_.shape_with(own_rows), "reduce_scatter", comm.rank(), comm.size());
        if (!comm.options().checks && !call_.error.empty()) throw UsageError{call_.error};
    }

private:
    using E = tensor_value_t<In>;
    using Wide = typename Rescale<E, Op>::Wide;
    using Carried = typename Rescale<E, Op>::Carried;

    static Carried carried(const Op& op) {
        if constexpr (std::same_as<Carried, Op>) return op;
        else return {};
    }

    std::unique_ptr<Operation> begin(int stage) override {
        if (stage == 0) {
            return make_agreement(comm_.context(), channel_, call_, [rows = rows_] {
                return "reduce_scatter of " + std::to_string(rows.count) + " " + rows_text(rows, scalar_name<E>()) +
                       " with " + std::string{op_name<Op>()};
            });
        }
        const std::size_t n = rows_.count * rows_.width;
        if (stage == 1) {
            copy_ = Loan{comm_.context().pool, n * sizeof(Wide)};
            rescale_.before(data(), in_, n);
            if constexpr (std::same_as<Op, Adasum>) {
                return std::make_unique<AdasumRun<T, E>>(channel_, std::span<E>{data(), n}, comm_.context().pool);
            } else {
                return Ring{}.start_reduce_scatter(channel_, scratch(), std::span<Wide>{data(), n}, Layout{begin_}, op_);
            }
        }
        const auto r = static_cast<std::size_t>(comm_.rank());
        rescale_.after(data_of(out_), data() + begin_[r], begin_[r + 1] - begin_[r]);
        return nullptr;
    }

    Wide* data() const { return reinterpret_cast<Wide*>(copy_.data()); }
    ScratchState& scratch() {
        scratch_.pool = comm_.context().pool;
        return scratch_;
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    const E* in_;
    Rows rows_;
    Out& out_;
    Carried op_;
    Rescale<E, Op> rescale_;
    std::vector<std::size_t> begin_;  // element at which each rank's share begins
    Call call_;
    Loan copy_;
    ScratchState scratch_;
};

}  // namespace detail

/// Reduces `in` over all ranks and leaves rank r the r-th share of its rows (dimension 0) in `out`: shares are equal, the
/// first ranks take one more. `in` is left as it is; `out` is resized, or long enough. Collective: equal shapes and
/// operation on all ranks.
template <class T, class A, class In, class Out, class Op = Sum>
void reduce_scatter(const Communicator<T, A>& comm, const In& in, Out&& out, const Op& op = {}, ReduceOptions options = {}) {
    if constexpr (detail::explain_tensor<In>()) {
        if constexpr (detail::explain_writable<Out>()) {
            if constexpr (detail::explain_same_scalar<In, Out>()) {
                if constexpr (detail::explain_op<Op, tensor_value_t<In>>()) {
                    detail::ReduceScatterTask<T, A, In, std::remove_reference_t<Out>, Op> task{comm, in, out, op, options};
                    detail::complete(comm, task, "reduce_scatter");
                }
            }
        }
    }
}

/// Begins a reduce_scatter; both tensors must outlive it.
template <class T, class A, class In, class Out, class Op = Sum>
Request reduce_scatter_async(const Communicator<T, A>& comm, In&& in, Out&& out, const Op& op = {},
                             ReduceOptions options = {}) {
    if constexpr (detail::explain_lasting<In>()) {
        if constexpr (detail::explain_lasting<Out>()) {
            if constexpr (detail::explain_writable<Out>()) {
                if constexpr (detail::explain_same_scalar<In, Out>()) {
                    if constexpr (detail::explain_op<Op, tensor_value_t<In>>()) {
                        using Task =
                            detail::ReduceScatterTask<T, A, std::remove_cvref_t<In>, std::remove_reference_t<Out>, Op>;
                        return detail::begin_async(comm, std::make_unique<Task>(comm, in, out, op, options),
                                                   "reduce_scatter");
                    }
                }
            }
        }
    }
    return {};
}

}  // namespace hvd
