// The allreduce of one tensor as an operation: agreement, reduction, result.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include <hvd/comm/device_reduction.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/tensor.hpp>

namespace hvd {
namespace detail {

/// One tensor: the agreement, which carries the elements of a short one along when Auto decides, else the reduction.
template <class T, class A, Scalar E, class Op>
class AllreduceTask final : public Operation {
public:
    /// `in` may be `out`. With an `error` the call is wrong on this rank.
    AllreduceTask(const Communicator<T, A>& comm, const E* in, std::span<E> out, const Op& op, ReduceOptions options,
                  std::string error = {})
        : comm_{comm},
          channel_{comm.context().next_channel()},
          in_{in},
          out_{out},
          op_{op},
          options_{options},
          rescale_{options, comm.size()},
          is_carried_{can_be_carried && comm.size() > 1 && comm.options().checks &&
                      out.size() * sizeof(Wide) <= Exchange<T>::room},
          agreement_{comm.context(), channel_, call(out.size(), options, std::move(error))},
          turn_{comm.shared_context(), !is_tagged<A>() && !is_carried_} {
        if constexpr (can_be_carried) {
            if (!is_carried_) return;
            const std::size_t bytes = out.size() * sizeof(Wide);
            rescale_.before(payload(), in, out.size());
            if constexpr (std::same_as<Carried<Op>, Op>) agreement_.exchange().carry(bytes, Fold::of<Wide>(op_));
            else agreement_.exchange().carry(bytes, Fold::of<Wide>(sum));
        }
    }

    AllreduceTask(const AllreduceTask&) = delete;  // the exchange refers to op_
    AllreduceTask& operator=(const AllreduceTask&) = delete;

    bool advance() override {
        if (!reduction_) {
            if (!has_agreed_ && !(has_agreed_ = agreement_.advance())) return false;
            if constexpr (can_be_carried) {
                if (is_carried_) {
                    rescale_.after(out_.data(), payload(), out_.size());
                    return true;
                }
            }
            if (!turn_.has_come()) return false;
            if (in_ != out_.data() && !out_.empty())
                std::memcpy(static_cast<void*>(out_.data()), in_, out_.size_bytes());
            reduction_.emplace(comm_, channel_, out_, op_, options_);
        }
        return reduction_->advance();
    }

    int waiting_for() const override { return reduction_ ? reduction_->waiting_for() : agreement_.waiting_for(); }

private:
    using Wide = typename Rescale<E, Op>::Wide;
    /// A named algorithm is used for every length; Auto lets the exchange carry short ones.
    static constexpr bool can_be_carried = std::same_as<A, Auto> && !std::same_as<Op, Adasum>;

    static Call call(std::size_t count, ReduceOptions options, std::string error) {
        Call call = Call::of("allreduce");
        call.elements(scalar_info<E>).count(count).template operation<Op>().scaled(options).wrong(std::move(error));
        return call;
    }
    Wide* payload() { return reinterpret_cast<Wide*>(agreement_.exchange().payload()); }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    const E* in_;
    std::span<E> out_;
    Op op_;
    ReduceOptions options_;
    Rescale<E, Op> rescale_;
    const bool is_carried_;
    Agreement<T> agreement_;
    Turn<T> turn_;
    bool has_agreed_ = false;
    std::optional<Reducer<T, A, E, Op>> reduction_;
};

/// What is right for the transport.
template <class T, class A, Scalar E, class Op>
using AllreduceOf =
    std::conditional_t<DeviceTransport<T>, DeviceAllreduceTask<T, A, E, Op>, AllreduceTask<T, A, E, Op>>;

/// Calls `f(in, out, error)` with the elements of both tensors, `out` resized where it can be.
template <class T, class A, class In, class Out, class F>
decltype(auto) with_elements(const Communicator<T, A>& comm, const In& in, Out& out, std::string_view name, F&& f) {
    std::string error;
    if (static_cast<const void*>(std::addressof(in)) != static_cast<const void*>(std::addressof(out)))
        error = Output::of(out).make_room(shape_of(in), Input::of(in), 0, name, comm.rank(), comm.size());
    return f(const_data_of(in), std::span<tensor_value_t<Out>>{data_of(out), size_of(in)}, std::move(error));
}

}  // namespace detail
}  // namespace hvd
