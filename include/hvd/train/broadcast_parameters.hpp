// All workers begin with the same parameters and optimizer state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <hvd/comm/broadcast.hpp>
#include <hvd/train/model.hpp>

namespace hvd {
namespace detail {

/// Brings the list of rank `root` to all. Tensors that differ in length are resized where they can be.
template <class T, class A, class L>
void broadcast_list(const Communicator<T, A>& comm, L&& list, int root, bool resizes) {
    for_each_tensor(list, [&]<class X>(X& tensor, std::size_t) {
        if constexpr (Resizable<X>) {
            if (resizes) {
                // Optimizers make their state when they first step, so that it may be empty elsewhere.
                const std::vector<std::size_t> shape = shape_of(tensor);
                std::vector<std::uint64_t> wanted{shape.size()};
                broadcast(comm.host(), wanted, root);
                const auto rank = static_cast<std::size_t>(wanted[0]);
                wanted.assign(shape.begin(), shape.end());
                wanted.resize(rank);
                broadcast(comm.host(), wanted, root);
                const std::vector<std::size_t> extents(wanted.begin(), wanted.end());
                if (extents != shape) TensorTraits<X>::resize(tensor, extents);
            }
        }
        broadcast(comm, tensor, root);
    });
}

}  // namespace detail

/// Overwrites the parameters of every worker's model with those of rank `root`. Collective; called once before training.
template <class T, class A, class M>
void broadcast_parameters(const Communicator<T, A>& world, M& model, int root = 0) {
    if constexpr (TensorList<M>) {
        detail::broadcast_list(world, model, root, false);
    } else if constexpr (detail::explain_model<M>()) {
        detail::broadcast_list(world, model.parameters(), root, false);
    }
}

/// Overwrites the state (`state()`, if there is one) of every worker's optimizer with that of rank `root`; it may be of
/// another length there, where it can be resized. Takes the user's optimizer or a DistributedOptimizer. Collective.
template <class T, class A, class O>
void broadcast_optimizer_state(const Communicator<T, A>& world, O& optimizer, int root = 0) {
    if constexpr (requires { optimizer.inner(); }) {
        broadcast_optimizer_state(world, optimizer.inner(), root);
    } else if constexpr (detail::HasState<O>) {
        detail::broadcast_list(world, optimizer.state(), root, true);
    } else {
        static_assert(
            !requires { optimizer.state(); },
            "hvd: state() of this optimizer returns no list of tensors; return std::tie(m, v) or a range of Tensors");
    }
}

}  // namespace hvd
