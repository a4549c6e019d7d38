// DistributedOptimizer: the user's optimizer, stepping by the gradients of all workers.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include <hvd/comm/allreduce.hpp>
#include <hvd/comm/communicator.hpp>
#include <hvd/core/kernels.hpp>
#include <hvd/train/model.hpp>

namespace hvd {

/// How the gradients of the workers become one.
enum class Reduction { Average, Sum, Adasum };

/// Options of DistributedOptimizer.
struct OptimizerOptions {
    Reduction op = Reduction::Average;
};

/// Wraps an optimizer: `step()` first makes the gradients of `model` the same on all workers, then calls the optimizer's
/// `step(model)`. Every worker builds one and calls it as often as the others. The model must outlive it.
template <class Model, class Optimizer, class Communicator>
class DistributedOptimizer {
    static_assert(detail::explain_model<Model>() && detail::explain_optimizer<Optimizer, Model>());

public:
    /// Local. Throws UsageError when the model's gradients do not fit its parameters.
    DistributedOptimizer(const Communicator& world, Model& model, Optimizer optimizer, OptimizerOptions options = {})
        : world_{world}, model_{model}, optimizer_{std::move(optimizer)}, options_{options} {
        if (const std::string error = detail::model_error(model); !error.empty()) throw UsageError{error};
    }
    DistributedOptimizer(const DistributedOptimizer&) = delete;
    DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

    /// Reduces the gradients over all workers, in place, and steps. Collective.
    void step() {
        require_not_synchronized("step()");
        reduce_gradients();
        optimizer_.step(model_);
    }

    /// The same, with each worker's gradients weighted by the size of its batch, so that uneven batches give the mean over
    /// all samples. An empty batch counts for nothing, whatever the gradients are. Sum and Adasum are not weighted.
    template <class Batch>
        requires requires(const Batch& b) { b.size(); }
    void step(const Batch& batch) {
        require_not_synchronized("step(batch)");
        if (options_.op == Reduction::Average) {
            const Clock::time_point began = Clock::now();
            weight_gradients(static_cast<double>(batch.size()));
            reduce(sum);
            exposed_ = Clock::now() - began;
        } else {
            reduce_gradients();
        }
        optimizer_.step(model_);
    }

    /// Reduces the gradients and leaves the step to `apply()`, so that they can be looked at and clipped before it.
    /// Collective.
    void synchronize() {
        require_not_synchronized("synchronize()");
        reduce_gradients();
        synchronized_ = true;
    }

    /// Steps by the gradients as they are now. Only after `synchronize()`.
    void apply() {
        if (!synchronized_)
            throw UsageError{located("apply()", "it comes without synchronize(); call synchronize() first, or step() for both")};
        synchronized_ = false;
        optimizer_.step(model_);
    }

    /// How long the last step waited for communication.
    std::chrono::duration<double> exposed_time() const { return exposed_; }

    /// The user's optimizer.
    Optimizer& inner() { return optimizer_; }
    const Optimizer& inner() const { return optimizer_; }
    Model& model() { return model_; }

private:
    using Clock = std::chrono::steady_clock;

    std::string located(const char* call, const std::string& cause) const {
        return detail::located(std::string{"DistributedOptimizer::"} + call, world_.rank(), world_.size(), cause);
    }

    void require_not_synchronized(const char* call) const {
        if (synchronized_)
            throw UsageError{located(call, "the gradients are synchronized already; call apply() before the next step")};
    }

    template <class Op>
    void reduce(const Op& op) {
        auto&& gradients = model_.gradients();
        allreduce(world_, gradients, op);
    }

    void reduce_gradients() {
        const Clock::time_point began = Clock::now();
        switch (options_.op) {
            case Reduction::Average: reduce(average); break;
            case Reduction::Sum: reduce(sum); break;
            case Reduction::Adasum: reduce_adasum(); break;
        }
        exposed_ = Clock::now() - began;
    }

    void reduce_adasum() {
        auto&& gradients = model_.gradients();
        using List = decltype(model_.gradients());
        if constexpr (detail::every_tensor<List, AllowsAdasum>()) {
            allreduce(world_, gradients, adasum);
        } else {
            throw UsageError{located("step()", "adasum needs floating-point gradients; use Reduction::Average")};
        }
    }

    template <class T>
    struct AllowsAdasum : std::bool_constant<ReduceOperation<Adasum, tensor_value_t<T>>> {};

    void weight_gradients(double weight) {
        double total = weight;
        allreduce(world_, std::span<double>{&total, 1});
        if (total == 0) total = 1;
        auto&& gradients = model_.gradients();
        detail::for_each_tensor(gradients, [&]<class T>(T& gradient, std::size_t) {
            auto* data = detail::data_of(gradient);
            const std::size_t n = detail::size_of(gradient);
            if (weight > 0) detail::scale(data, data, n, weight / total);
            else for (std::size_t i = 0; i < n; ++i) data[i] = tensor_value_t<T>{};
        });
    }

    Communicator world_;
    Model& model_;
    Optimizer optimizer_;
    OptimizerOptions options_;
    bool synchronized_ = false;
    std::chrono::duration<double> exposed_{0};
};

template <class T, class A, class M, class O>
DistributedOptimizer(const Communicator<T, A>&, M&, O, OptimizerOptions = {})
    -> DistributedOptimizer<M, O, Communicator<T, A>>;

}  // namespace hvd
