// How every collective is run: to its end in the calling thread, or step by step in the hands of a Request.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <hvd/comm/communicator.hpp>
#include <hvd/comm/request.hpp>

namespace hvd::detail {

/// Begins an operation, which any wait of this worker will take further.
template <class T, class A>
Request begin_async(const Communicator<T, A>& comm, std::unique_ptr<Operation> operation, std::string_view name) {
    const std::shared_ptr<Worker> worker = comm.transport().worker();
    worker->check();
    auto task = std::make_shared<Task>(
        std::move(operation),
        std::string{name} + "_async on rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.size()),
        *worker);
    if (!task->advance()) worker->add(task);
    return Request{worker, std::move(task)};
}

}  // namespace hvd::detail
