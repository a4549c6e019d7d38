// broadcast: the root's tensor replaces everybody's.
#pragma once

#include <memory>
#include <string>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/rooted.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

template <class T, class A, Scalar E>
class BroadcastTask final : public StagedOperation {
public:
    BroadcastTask(const Communicator<T, A>& comm, std::span<E> data, int root)
        : StagedOperation{2}, comm_{comm}, channel_{comm.context().next_channel()}, data_{data}, root_{root} {
        call_ = Call::of("broadcast").with(scalar_id<E>).with(std::uint64_t{data.size()}).with(static_cast<std::uint64_t>(root));
        call_.error = root_error("broadcast", root, comm.rank(), comm.size());
        if (!comm.options().checks && !call_.error.empty()) throw UsageError{call_.error};
    }

private:
    std::unique_ptr<Operation> begin(int stage) override {
        if (stage == 0) {
            return make_agreement(comm_.context(), channel_, call_, [n = data_.size(), root = root_] {
                return "broadcast of " + std::to_string(n) + " " + std::string{scalar_name<E>()} + " from rank " +
                       std::to_string(root);
            });
        }
        return start_rooted(comm_.context(), channel_, data_.data(), data_.size(), Fold::none(sizeof(E)), root_, false);
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    std::span<E> data_;
    int root_;
    Call call_;
};

template <class T, class A, class X>
std::unique_ptr<Operation> broadcast_task(const Communicator<T, A>& comm, X& x, int root) {
    using E = tensor_value_t<X>;
    return std::make_unique<BroadcastTask<T, A, E>>(comm, std::span<E>{data_of(x), size_of(x)}, root);
}

}  // namespace detail

/// Overwrites `x` on every rank with that of rank `root`. Collective: the same length, type and root on all ranks.
template <class T, class A, class X>
void broadcast(const Communicator<T, A>& comm, X&& x, int root) {
    if constexpr (detail::explain_writable<X>()) {
        const auto task = detail::broadcast_task(comm, x, root);
        detail::complete(comm, *task, "broadcast");
    }
}

/// Begins a broadcast; `x` must outlive it.
template <class T, class A, class X>
Request broadcast_async(const Communicator<T, A>& comm, X&& x, int root) {
    if constexpr (detail::explain_writable<X>())
        return detail::begin_async(comm, detail::broadcast_task(comm, x, root), "broadcast");
    else return {};
}

}  // namespace hvd
