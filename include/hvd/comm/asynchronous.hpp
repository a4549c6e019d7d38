// How every collective is run: to its end in the calling thread, or step by step in the hands of a Request.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <hvd/comm/communicator.hpp>
#include <hvd/comm/place.hpp>
#include <hvd/comm/request.hpp>

namespace hvd::detail {

/// An operation on devices, and then the wait until they have done it.
template <class T>
class UntilDone final : public StagedOperation {
public:
    UntilDone(T& transport, std::unique_ptr<Operation> operation)
        : StagedOperation{2}, transport_{transport}, operation_{std::move(operation)} {}

private:
    std::unique_ptr<Operation> begin(int stage) override {
        return stage == 0 ? std::move(operation_) : transport_.finish();
    }

    T& transport_;
    std::unique_ptr<Operation> operation_;
};

/// Begins an operation, which any wait of this worker will take further.
template <class T, class A>
Request begin_async(const Communicator<T, A>& comm, std::unique_ptr<Operation> operation, std::string_view name) {
    const std::shared_ptr<Worker> worker = comm.transport().worker();
    worker->check();
    if constexpr (DeviceTransport<T>)
        operation = std::make_unique<UntilDone<T>>(comm.transport(), std::move(operation));
    auto task = std::make_shared<Task>(
        std::move(operation),
        std::string{name} + "_async on rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.size()),
        *worker);
    if (!task->advance()) worker->add(task);
    return Request{worker, std::move(task)};
}

}  // namespace hvd::detail
