// broadcast: the root's tensor replaces everybody's.
#pragma once

#include <memory>
#include <utility>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/by_host.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/direct_path.hpp>
#include <hvd/comm/rooted.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

template <Transport T>
class BroadcastTask final : public StagedOperation {
public:
    BroadcastTask(std::shared_ptr<Context<T>> context, void* data, std::size_t count, const ScalarInfo& scalar,
                  int root)
        : StagedOperation{2},
          context_{std::move(context)},
          channel_{context_->next_channel()},
          direct_{context_},
          device_{context_},
          data_{data},
          count_{count},
          scalar_{scalar},
          root_{root} {}

private:
    std::unique_ptr<Operation> begin(int stage) override {
        if (stage == 0) {
            Call call = Call::of("broadcast");
            call.elements(scalar_).count(count_).root(root_);
            return agree(*context_, channel_,
                         std::move(call.wrong(root_error("broadcast", root_, context_->rank(), context_->size()))));
        }
        if constexpr (DeviceTransport<T>) return device_.broadcast(channel_, data_, count_ * scalar_.size, root_);
        else return move_on_host();
    }

    std::unique_ptr<Operation> move_on_host() {
        if (direct_) return copy_from_root();
        return start_rooted(*context_, channel_, data_, count_, Fold::none(scalar_.size), root_, false);
    }

    std::unique_ptr<Operation> copy_from_root() {
        auto* data = static_cast<std::byte*>(data_);
        DirectExchange exchange{data, {{}}, std::vector<DirectPiece>(static_cast<std::size_t>(context_->size()))};
        const DirectPiece all{0, count_ * scalar_.size, data};
        if (context_->rank() == root_) exchange.given[0] = all;
        else exchange.taken[static_cast<std::size_t>(root_)] = all;
        return direct_.copy(std::move(exchange));
    }

    std::shared_ptr<Context<T>> context_;
    Channel<T> channel_;
    DirectPath<T> direct_;
    DevicePath<T> device_;
    void* data_;
    std::size_t count_;
    ScalarInfo scalar_;
    int root_;
};

template <class T, class A, class X>
std::unique_ptr<Operation> broadcast_task(const Communicator<T, A>& comm, X& x, int root) {
    const auto begin = [&]<class E>(std::span<E> data) -> std::unique_ptr<Operation> {
        return std::make_unique<BroadcastTask<T>>(comm.shared_context(), data.data(), data.size(), scalar_info<E>,
                                                  root);
    };
    if constexpr (goes_by_host<T, X>) {
        auto twin = host_twin<device::has_host_copy>(x);
        return std::make_unique<ByHost<decltype(twin)>>(std::move(twin), begin);
    } else {
        return begin(std::span<tensor_value_t<X>>{data_of(x), size_of(x)});
    }
}

}  // namespace detail

/// Overwrites `x` on every rank with that of rank `root`. Collective: the same length, type and root on all ranks.
template <class T, class A, class X>
void broadcast(const Communicator<T, A>& comm, X&& x, int root) {
    if constexpr (detail::explain_writable<X>()) {
        detail::require_place_or_host<T, X>();
        const auto task = detail::broadcast_task(comm, x, root);
        detail::complete(comm, *task, "broadcast");
    }
}

/// Begins a broadcast; `x` must outlive it.
template <class T, class A, class X>
Request broadcast_async(const Communicator<T, A>& comm, X&& x, int root) {
    if constexpr (detail::explain_writable<X>()) {
        detail::require_place_or_host<T, X>();
        return detail::begin_async(comm, detail::broadcast_task(comm, x, root), "broadcast");
    } else {
        return {};
    }
}

}  // namespace hvd
