// The reduction of tensors on devices: by the transport's own library, in two levels, or by way of host memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <hvd/algorithm/native.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/hierarchical_device.hpp>
#include <hvd/comm/reduction.hpp>

namespace hvd::detail {

/// Algorithms that leave the choice to the transport's library.
template <class A>
inline constexpr bool leaves_it_to_the_device = std::same_as<A, Auto> || std::same_as<A, Native>;

/// What the library cannot do, and algorithms that were asked for by name: the tensors come to host memory, are reduced there
/// as others are, and go back. With Adasum one by one, since it looks at whole tensors.
template <class T, class A, Scalar E, class Op>
class ByWayOfHost final : public Operation {
public:
    using Fences = std::vector<typename T::Fence>;

    ByWayOfHost(const Communicator<T, A>& comm, Channel<T> channel, std::vector<DevicePiece<E>> pieces, const Op& op,
                ReduceOptions options, Fences after)
        : comm_{comm},
          channel_{channel},
          pieces_{std::move(pieces)},
          op_{op},
          options_{options},
          after_{std::move(after)} {}

    bool advance() override {
        for (; first_ < pieces_.size(); first_ = end_, step_ = Step::Fetch) {
            if (step_ == Step::Fetch) fetch();
            if (step_ == Step::Fetching) {
                if (!copied_.has_come()) return false;
                reduction_.emplace(comm_, channel_, std::span<E>{host(), n_}, op_, options_);
                step_ = Step::Reducing;
            }
            if (step_ == Step::Reducing) {
                if (!reduction_->advance()) return false;
                reduction_.reset();
                bring_back();
            }
            if (!copied_.has_come()) return false;
        }
        return true;
    }
    int waiting_for() const override { return reduction_ ? reduction_->waiting_for() : -1; }

private:
    enum class Step { Fetch, Fetching, Reducing, Returning };

    E* host() const { return reinterpret_cast<E*>(buffer_.data()); }

    void fetch() {
        end_ = std::same_as<Op, Adasum> ? first_ + 1 : pieces_.size();
        n_ = 0;
        for (std::size_t i = first_; i < end_; ++i) n_ += pieces_[i].n;
        buffer_ = comm_.transport().host_buffer(n_ * sizeof(E));
        std::size_t at = 0;
        for (std::size_t i = first_; i < end_; at += pieces_[i++].n)
            copied_ = comm_.transport().copy(host() + at, pieces_[i].in, pieces_[i].n * sizeof(E), after_);
        step_ = Step::Fetching;
    }

    void bring_back() {
        std::size_t at = 0;
        for (std::size_t i = first_; i < end_; at += pieces_[i++].n)
            copied_ = comm_.transport().copy(pieces_[i].out, host() + at, pieces_[i].n * sizeof(E));
        step_ = Step::Returning;
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    std::vector<DevicePiece<E>> pieces_;
    Op op_;
    ReduceOptions options_;
    Fences after_;
    std::size_t first_ = 0, end_ = 0, n_ = 0;
    Step step_ = Step::Fetch;
    typename T::HostBuffer buffer_;
    typename T::Fence copied_;
    std::optional<Reducer<T, A, E, Op>> reduction_;
};

/// Begins the reduction of `pieces` behind `after`. Whoever runs it has the turn.
template <class T, class A, Scalar E, class Op>
std::unique_ptr<Operation> reduce_on_device(const Communicator<T, A>& comm, Channel<T> channel,
                                            std::vector<DevicePiece<E>> pieces, const Op& op, ReduceOptions options,
                                            std::vector<typename T::Fence> after) {
    const double factor = options.prescale * options.postscale;
    if constexpr (reduces_on_device<T, E, Op>()) {
        if (T::template can_reduce<E, Op>(factor)) {
            if constexpr (leaves_it_to_the_device<A>) {
                return comm.transport().template device_allreduce<E, Op>(channel, std::move(after), std::move(pieces),
                                                                         factor);
            } else if constexpr (HasDeviceLevels<A>) {
                return std::make_unique<HierarchicalDeviceRun<T, A, E, Op>>(comm, channel, std::move(pieces), factor,
                                                                            std::move(after));
            }
        }
    }
    return std::make_unique<ByWayOfHost<T, A, E, Op>>(comm, channel, std::move(pieces), op, options, std::move(after));
}

/// The allreduce of one tensor: agreement, its turn, and the reduction.
template <class T, class A, Scalar E, class Op>
class DeviceAllreduceTask final : public Operation {
public:
    /// `in` may be `out`. With an `error` the call is wrong on this rank.
    DeviceAllreduceTask(const Communicator<T, A>& comm, const E* in, std::span<E> out, const Op& op,
                        ReduceOptions options, std::string error = {})
        : channel_{comm.context().next_channel()},
          path_{comm.shared_context()},
          agreement_{comm.context(), channel_, call(out.size(), options, std::move(error))},
          run_{path_.in_turn(reduce_on_device(comm, channel_, std::vector<DevicePiece<E>>{{in, out.data(), out.size()}},
                                              op, options, path_.after()))} {}

    bool advance() override { return (has_agreed_ || (has_agreed_ = agreement_.advance())) && run_->advance(); }
    int waiting_for() const override { return has_agreed_ ? run_->waiting_for() : agreement_.waiting_for(); }

private:
    static Call call(std::size_t count, ReduceOptions options, std::string error) {
        Call call = Call::of("allreduce");
        call.elements(scalar_info<E>).count(count).template operation<Op>().scaled(options).wrong(std::move(error));
        return call;
    }

    Channel<T> channel_;
    DevicePath<T> path_;
    Agreement<T> agreement_;
    std::unique_ptr<Operation> run_;
    bool has_agreed_ = false;
};

}  // namespace hvd::detail
