// allgather: the rows of all ranks, in rank order, on every rank.
#pragma once

#include <concepts>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement, the ranks' row counts, agreement on the outputs, and the rows around a ring.
template <class T, class A, class In, class Out>
class AllgatherTask final : public StagedOperation {
public:
    AllgatherTask(const Communicator<T, A>& comm, const In& in, Out& out)
        : StagedOperation{4}, comm_{comm}, channel_{comm.context().next_channel()}, in_{const_data_of(in)},
          rows_{rows_of(in)}, out_{out}, counts_(static_cast<std::size_t>(comm.size())) {
        call_ = Call::of("allgather").with(scalar_id<E>);
        add_trailing(call_, rows_);
        call_.error = shape_error(in, rows_, "allgather", comm.rank(), comm.size());
    }

private:
    using E = tensor_value_t<In>;

    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0:
                return make_agreement(comm_.context(), channel_, call_,
                                      [rows = rows_] { return "allgather of " + rows_text(rows, scalar_name<E>()); });
            case 1: return gather_everywhere(channel_, &rows_.count, counts_.data(), sizeof(std::size_t));
            case 2: return agree_on_output();
            default: return exchange_rows();
        }
    }

    std::unique_ptr<Operation> agree_on_output() {
        std::size_t total = 0;
        begin_ = {0};
        for (std::size_t count : counts_) begin_.push_back((total += count) * rows_.width);
        Call call = Call::of("allgather output");
        call.error = make_room(out_, rows_.shape_with(total), "allgather", comm_.rank(), comm_.size());
        return make_agreement(comm_.context(), channel_, call, [] { return std::string{"allgather"}; });
    }

    std::unique_ptr<Operation> exchange_rows() {
        E* all = data_of(out_);
        const auto rank = static_cast<std::size_t>(comm_.rank());
        const std::size_t own = rows_.count * rows_.width;
        if (own > 0 && all + begin_[rank] != in_) std::memmove(static_cast<void*>(all + begin_[rank]), in_, own * sizeof(E));
        const RingSchedule schedule{comm_.rank(), comm_.size(), 1, RingSchedule::Part::Allgather};
        return std::make_unique<ScheduleRun<T, RingSchedule>>(channel_, schedule, Layout{std::move(begin_)}, all,
                                                              Fold::none(sizeof(E)), comm_.context().pool);
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    const E* in_;
    Rows rows_;
    Out& out_;
    std::vector<std::size_t> counts_, begin_;
    Call call_;
};

/// What `allgather(comm, in)` returns: the input's own type where that can be made and resized, else a vector.
template <class In>
using Gathered = std::conditional_t<Resizable<In> && std::default_initializable<In> && !is_view<In>(), In,
                                    std::vector<tensor_value_t<In>>>;

}  // namespace detail

/// Concatenates the rows (dimension 0) of `in` of all ranks in `out`, in rank order. Ranks may bring different numbers of
/// rows, also none; the other dimensions must be equal. `out` is resized, or long enough. Collective.
template <class T, class A, class In, class Out>
void allgather(const Communicator<T, A>& comm, const In& in, Out&& out) {
    if constexpr (detail::explain_tensor<In>()) {
        if constexpr (detail::explain_writable<Out>()) {
            if constexpr (detail::explain_same_scalar<In, Out>()) {
                detail::AllgatherTask<T, A, In, std::remove_reference_t<Out>> task{comm, in, out};
                detail::complete(comm, task, "allgather");
            }
        }
    }
}

/// The same, with the result returned: as the input's type, or as a std::vector where that cannot be resized.
template <class T, class A, class In>
auto allgather(const Communicator<T, A>& comm, const In& in) {
    if constexpr (detail::explain_tensor<In>()) {
        detail::Gathered<In> out{};
        allgather(comm, in, out);
        return out;
    }
}

/// Begins an allgather; both tensors must outlive it, and `out` is resized while it runs.
template <class T, class A, class In, class Out>
Request allgather_async(const Communicator<T, A>& comm, In&& in, Out&& out) {
    if constexpr (detail::explain_lasting<In>()) {
        if constexpr (detail::explain_lasting<Out>()) {
            if constexpr (detail::explain_writable<Out>()) {
                if constexpr (detail::explain_same_scalar<In, Out>()) {
                    using Task = detail::AllgatherTask<T, A, std::remove_cvref_t<In>, std::remove_reference_t<Out>>;
                    return detail::begin_async(comm, std::make_unique<Task>(comm, in, out), "allgather");
                }
            }
        }
    }
    return {};
}

}  // namespace hvd
