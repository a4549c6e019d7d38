// allgather: the rows of all ranks, in rank order, on every rank.
#pragma once

#include <concepts>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/direct_path.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement, the ranks' row counts, agreement on the outputs, and the rows around a ring.
template <Transport T>
class AllgatherTask final : public StagedOperation {
public:
    AllgatherTask(std::shared_ptr<Context<T>> context, Input in, Output out)
        : StagedOperation{4},
          context_{std::move(context)},
          channel_{context_->next_channel()},
          direct_{context_},
          device_{context_},
          in_{std::move(in)},
          out_{out},
          counts_(static_cast<std::size_t>(context_->size())) {}

private:
    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0: {
                Call call = Call::of("allgather");
                call.elements(in_.scalar).trailing(in_.rows.trailing);
                return agree(*context_, channel_,
                             std::move(call.wrong(in_.error("allgather", context_->rank(), context_->size()))));
            }
            case 1:
                return gather_everywhere(channel_, &in_.rows.count, counts_.data(), sizeof(std::size_t));
            case 2:
                return agree_on_output();
            default:
                return exchange_rows();
        }
    }

    std::unique_ptr<Operation> agree_on_output() {
        std::size_t total = 0;
        begin_ = {0};
        for (std::size_t count : counts_) begin_.push_back((total += count) * in_.rows.width);
        Call call = Call::of("allgather output");
        const auto place = static_cast<std::ptrdiff_t>(begin_[static_cast<std::size_t>(context_->rank())]);
        call.wrong(
            out_.make_room(in_.rows.shape_with(total), in_, place, "allgather", context_->rank(), context_->size()));
        return agree_later(*context_, channel_, std::move(call));
    }

    std::unique_ptr<Operation> exchange_rows() {
        auto* all = static_cast<std::byte*>(out_.data());
        if constexpr (DeviceTransport<T>) {
            for (std::size_t& at : begin_) at *= in_.scalar.size;
            return device_.allgather(channel_, in_.data, all, begin_);
        } else {
            return move_on_host(all);
        }
    }

    std::unique_ptr<Operation> move_on_host(std::byte* all) {
        std::byte* own = all + begin_[static_cast<std::size_t>(context_->rank())] * in_.scalar.size;
        const std::size_t bytes = in_.size * in_.scalar.size;
        if (bytes > 0 && own != in_.data) std::memmove(own, in_.data, bytes);
        if (direct_) return copy_rows(all, bytes);
        const RingSchedule schedule{context_->rank(), context_->size(), 1, RingSchedule::Part::Allgather};
        return std::make_unique<ScheduleRun<T, RingSchedule>>(channel_, schedule, Layout{std::move(begin_)}, all,
                                                              Fold::none(in_.scalar.size), context_->pool);
    }

    std::unique_ptr<Operation> copy_rows(std::byte* all, std::size_t bytes) {
        DirectExchange exchange{
            static_cast<const std::byte*>(in_.data), {{0, bytes}}, std::vector<DirectPiece>(counts_.size())};
        for (std::size_t r = 0; r < counts_.size(); ++r) {
            if (static_cast<int>(r) == context_->rank()) continue;
            exchange.taken[r] = {0, in_.bytes_of(counts_[r]), all + begin_[r] * in_.scalar.size};
        }
        return direct_.copy(std::move(exchange));
    }

    std::shared_ptr<Context<T>> context_;
    Channel<T> channel_;
    DirectPath<T> direct_;
    DevicePath<T> device_;
    Input in_;
    Output out_;
    std::vector<std::size_t> counts_, begin_;
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
    if constexpr (detail::explain_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        detail::AllgatherTask<T> task{comm.shared_context(), detail::Input::of(in), detail::Output::of(out)};
        detail::complete(comm, task, "allgather");
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
    if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        return detail::begin_async(comm,
                                   std::make_unique<detail::AllgatherTask<T>>(
                                       comm.shared_context(), detail::Input::of(in), detail::Output::of(out)),
                                   "allgather");
    } else {
        return {};
    }
}

}  // namespace hvd
