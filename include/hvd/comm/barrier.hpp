// barrier: nobody leaves before the last has come.
#pragma once

#include <memory>

#include <hvd/comm/asynchronous.hpp>

namespace hvd {
namespace detail {

template <class T, class A>
std::unique_ptr<Operation> barrier_task(const Communicator<T, A>& comm) {
    using Kind = typename Agreement<T>::Kind;
    return std::make_unique<Agreement<T>>(comm.context(), comm.context().next_channel(), Call::of("barrier"),
                                          Kind::Barrier);
}

}  // namespace detail

/// Returns when all ranks of `comm` have called it. Collective.
template <class T, class A>
void barrier(const Communicator<T, A>& comm) {
    const auto task = detail::barrier_task(comm);
    detail::complete(comm, *task, "barrier");
}

/// A barrier that is reached when the request is ready.
template <class T, class A>
Request barrier_async(const Communicator<T, A>& comm) {
    return detail::begin_async(comm, detail::barrier_task(comm), "barrier");
}

}  // namespace hvd
