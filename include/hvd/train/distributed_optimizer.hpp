// DistributedOptimizer: the user's optimizer, stepping by the gradients of all workers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hvd/engine/engine.hpp>
#include <hvd/train/bound_gradients.hpp>
#include <hvd/train/compression.hpp>
#include <hvd/train/device_gradient_slot.hpp>
#include <hvd/train/model.hpp>
#include <hvd/train/state_share.hpp>

namespace hvd {

/// Options of DistributedOptimizer. The order of the fields is public; new ones go to the end.
struct OptimizerOptions {
    /// Steps by the mean over this many backward passes; the calls of `step()` between only add up.
    std::size_t accumulate = 1;
    Reduction op = Reduction::Average;
    EngineOptions engine{};
    /// Under which an elastic job keeps its state; needed when one optimizer begins after another has ended.
    std::string name{};
};

/// Wraps an optimizer: `step()` first makes the gradients of `model` the same on all workers, then calls the optimizer's
/// `step(model)`. Every worker builds one and calls it as often as the others. The model must outlive it.
template <class Model, class Optimizer, class Communicator, class Compression = NoCompression>
class DistributedOptimizer {
    static_assert(detail::explain_model<Model>() && detail::explain_optimizer<Optimizer, Model>());

public:
    /// Collective. Throws UsageError when gradients do not fit parameters, names are not unique, or options make no sense.
    DistributedOptimizer(const Communicator& world, Model& model, Optimizer optimizer, OptimizerOptions options = {})
        : DistributedOptimizer{world, model, std::move(optimizer), Compression{}, options} {}
    DistributedOptimizer(const Communicator& world, Model& model, Optimizer optimizer, Compression,
                         OptimizerOptions options = {})
        : world_{world},
          model_{model},
          optimizer_{std::move(optimizer)},
          options_{options},
          slots_{make_slots()},
          engine_{world, options.engine},
          share_{world.state(), options.name} {
        share_.add(model_, optimizer_);
    }
    DistributedOptimizer(const DistributedOptimizer&) = delete;
    DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;
    ~DistributedOptimizer() {
        try {
            bound_.release(model_.gradients());
        } catch (...) {  // the tensors keep what they have
        }
    }

    /// Reduces the gradients over all workers, in place, and steps. Collective.
    void step() { step_weighted(1, false); }

    /// The same, with each worker's gradients weighted by the size of its batch, so that uneven batches give the mean over
    /// all samples. An empty batch counts for nothing, whatever the gradients are. Sum and Adasum are not weighted.
    /// Gradients cannot be announced before it, since their weight is not known then.
    template <class Batch>
        requires requires(const Batch& b) { b.size(); }
    void step(const Batch& batch) {
        step_weighted(static_cast<double>(batch.size()), options_.op == Reduction::Average);
    }

    /// During backward: gradient i (or that of the named parameter) is final; its bucket may start. In any order, for
    /// some or all, others on each rank; what is not announced is taken as it stands at `step()`.
    void gradient_ready(std::size_t i) { announce(i, "gradient_ready", false); }
    void gradient_ready(std::string_view name) { announce(index_of(name, "gradient_ready"), "gradient_ready", false); }

    /// This parameter took no part on this rank: its gradient counts as zero. The mean still divides by all workers.
    void no_gradient(std::size_t i) { announce(i, "no_gradient", true); }
    void no_gradient(std::string_view name) { announce(index_of(name, "no_gradient"), "no_gradient", true); }

    /// Reduces the gradients and leaves the step to `apply()`, so that they can be looked at and clipped between.
    /// Collective.
    void synchronize() {
        require_not_synchronized("synchronize()");
        require_like_window("synchronize()", false);
        reduce_gradients(1, false);
        synchronized_ = true;
    }

    /// Steps by the gradients as they are now. Only after `synchronize()`.
    void apply() {
        if (!synchronized_)
            throw UsageError{
                located("apply()", "it comes without synchronize(); call synchronize() first, or step() for both")};
        synchronized_ = false;
        step_and_commit();
    }

    /// While the guard lives, `step()` only adds up; the next whole `step()` uses the mean over all backward passes.
    class [[nodiscard]] NoSync {
    public:
        explicit NoSync(std::size_t& depth) : depth_{&depth} { ++*depth_; }
        NoSync(NoSync&& other) noexcept : depth_{std::exchange(other.depth_, nullptr)} {}
        ~NoSync() {
            if (depth_ != nullptr) --*depth_;
        }

    private:
        std::size_t* depth_;
    };
    NoSync no_sync() { return NoSync{no_sync_}; }

    /// Ends a partial window of `accumulate` with the right divisor and steps; does nothing when no window is open.
    /// Collective.
    void flush() {
        require_not_synchronized("flush()");
        if (passes_ == 0) return;
        for_each_gradient([&](auto& slot, void* data, std::size_t n) { slot.clear(data, n); });
        passes_ -= 1;  // the pass that reduce_gradients adds brings nothing
        reduce_gradients(0, is_weighted_);
        step_and_commit();
    }

    /// Collective: gradients whose tensor_traits have `rebind` move into memory that the node shares, where they are
    /// reduced without a copy. Values are kept; when the optimizer goes, the tensors get ordinary memory.
    void bind_gradients() {
        if (any_announced())
            throw UsageError{located("bind_gradients()", "a step is under way; call it between steps")};
        bound_.bind(world_, model_.gradients());
    }

    /// How long the last step waited for communication.
    std::chrono::duration<double> exposed_time() const { return exposed_; }
    /// Parameters whose gradients were not announced before the last step.
    const std::vector<std::string>& unannounced() const { return unannounced_; }
    /// Finite gradient elements that became infinite in their 16-bit form, in the last step.
    std::size_t overflows() const { return overflows_; }
    /// Buckets and how often they served.
    PlanInfo plan() const { return engine_.plan(); }
    void start_timeline(const std::string& path) { engine_.start_timeline(path); }
    void stop_timeline() { engine_.stop_timeline(); }

    /// The user's optimizer.
    Optimizer& inner() { return optimizer_; }
    const Optimizer& inner() const { return optimizer_; }
    Model& model() { return model_; }

private:
    using Clock = std::chrono::steady_clock;
    using Slot = detail::GradientSlot<Communicator>;

    std::string located(const std::string& call, const std::string& cause) const {
        return detail::located("DistributedOptimizer::" + call, world_.rank(), world_.size(), cause);
    }

    std::vector<std::unique_ptr<Slot>> make_slots() {
        if (const std::string error = detail::model_error(model_); !error.empty()) throw UsageError{error};
        if (const auto twice = detail::find_overlap(model_.gradients()))
            throw UsageError{located("gradients", "tensors " + std::to_string(twice->first) + " and " +
                                                      std::to_string(twice->second) +
                                                      " share memory; give tied gradients once")};
        if (options_.accumulate == 0)
            throw UsageError{located("accumulate", "a step needs at least one backward pass; give 1 or more")};
        std::vector<std::string> names;
        if constexpr (detail::HasParameterNames<Model>)
            for (const auto& name : model_.parameter_names()) names.emplace_back(name);
        std::vector<std::unique_ptr<Slot>> slots;
        detail::for_each_tensor(model_.gradients(), [&]<class X>(X&, std::size_t i) {
            using E = tensor_value_t<X>;
            std::string name = i < names.size() ? names[i] : "gradient " + std::to_string(i);
            if (!indices_.emplace(name, i).second)
                throw UsageError{
                    located("parameter_names", "there are two parameters '" + name + "'; give each a name of its own")};
            if (options_.op == Reduction::Adasum && !ReduceOperation<Adasum, E>)
                throw UsageError{located(
                    "op", "adasum needs floating-point gradients and '" + name + "' has none; use Reduction::Average")};
            slots.push_back(detail::make_gradient_slot<Communicator, X, Compression>(std::move(name)));
        });
        if (!names.empty() && names.size() != slots.size())
            throw UsageError{located("parameter_names", "there are " + std::to_string(names.size()) + " names and " +
                                                            std::to_string(slots.size()) +
                                                            " parameters; give one per parameter")};
        return slots;
    }

    /// `f(slot, data, n)` for every gradient.
    template <class F>
    void for_each_gradient(F&& f) {
        detail::for_each_tensor(model_.gradients(), [&](auto& x, std::size_t i) {
            f(*slots_[i], static_cast<void*>(detail::data_of(x)), detail::size_of(x));
        });
    }

    /// `f(slot, data, n)` for gradient i.
    template <class F>
    void with_gradient(std::size_t i, F&& f) {
        auto&& list = model_.gradients();
        using L = decltype(list);
        const auto call = [&](auto& x) { f(*slots_[i], static_cast<void*>(detail::data_of(x)), detail::size_of(x)); };
        if constexpr (requires { list[i]; } && !detail::TensorTuple<L>) call(list[i]);
        else
            detail::for_each_tensor(list, [&](auto& x, std::size_t k) {
                if (k == i) call(x);
            });
    }

    std::size_t index_of(std::string_view name, const char* call) const {
        const auto found = indices_.find(std::string{name});
        if (found == indices_.end())
            throw UsageError{
                located(call, "there is no parameter '" + std::string{name} + "'; use a name of the model's")};
        return found->second;
    }

    bool any_announced() const {
        for (const auto& slot : slots_)
            if (slot->is_announced()) return true;
        return false;
    }

    /// The pass in hand is the one that communicates.
    bool is_last_pass() const { return no_sync_ == 0 && passes_ + 1 >= options_.accumulate; }

    void announce(std::size_t i, const char* call, bool is_zero) {
        if (i >= slots_.size())
            throw UsageError{located(call, "there is no gradient " + std::to_string(i) + "; the model has " +
                                               std::to_string(slots_.size()))};
        require_not_synchronized(call);
        if (is_last_pass()) require_like_window(call, false);
        if (slots_[i]->is_announced() || early_.count(slots_[i]->name()) != 0)
            throw UsageError{
                located(call, "gradient '" + slots_[i]->name() + "' is announced twice in one step; announce it once")};
        with_gradient(i, [&](Slot& slot, void* data, std::size_t n) {
            if (is_zero) slot.clear(data, n);
            if (!is_last_pass()) {
                early_[slot.name()] = true;
                return;
            }
            conclude(slot, data, n, 1, false);
            slot.begin(engine_, data, n, options_.op, bound_.place(i));
        });
    }

    void require_not_synchronized(const std::string& call) const {
        if (synchronized_)
            throw UsageError{
                located(call, "the gradients are synchronized already; call apply() before the next step")};
    }

    void step_weighted(double weight, bool is_weighted) {
        require_not_synchronized("step()");
        require_like_window(is_weighted ? "step(batch)" : "step()", is_weighted);
        if (is_weighted && any_announced())
            throw UsageError{located("step(batch)",
                                     "gradients were announced before their weight was known; call step(), or "
                                     "announce none")};
        if (!is_last_pass()) {
            for_each_gradient([&](Slot& slot, const void* data, std::size_t n) {
                slot.accumulate(data, n, weight_of(weight, is_weighted));
            });
            early_.clear();
            ++passes_;
            weights_ += weight;
            is_weighted_ = is_weighted;
            share_.passed();
            return;
        }
        reduce_gradients(weight, is_weighted);
        step_and_commit();
    }

    void step_and_commit() {
        optimizer_.step(model_);
        share_.stepped();
    }

    /// The passes of a window are all weighted by their batch, or none is: the mean is over samples, or over passes.
    void require_like_window(const char* call, bool is_weighted) const {
        if (passes_ > 0 && is_weighted != is_weighted_)
            throw UsageError{located(
                call, std::string{"the backward passes before it in this window were "} + (is_weighted_ ? "" : "not ") +
                          "weighted by their batch; call step(batch) for all passes, or for none")};
    }

    static double weight_of(double weight, bool is_weighted) { return is_weighted ? weight : 1; }

    /// The mean over the passes of the window; weighted, the sum over the samples of this rank.
    void conclude(Slot& slot, void* data, std::size_t n, double weight, bool is_weighted) {
        const double passes = static_cast<double>(passes_ + 1);
        if (passes_ > 0 || is_weighted || weight == 0)
            slot.conclude(data, n, is_weighted ? weight : 1, is_weighted ? total_ : passes);
    }

    void reduce_gradients(double weight, bool is_weighted) {
        const Clock::time_point began = Clock::now();
        unannounced_.clear();
        if (is_weighted) {
            total_ = weights_ + weight;
            const std::span<double> total{&total_, 1};
            if constexpr (detail::DeviceTransport<typename Communicator::transport_type>)
                allreduce(world_.host(), total, sum);
            else engine_.allreduce("weight of the batch", total, sum).wait();
            if (total_ == 0) total_ = 1;
        }
        places_.clear();
        for_each_gradient([&](Slot& slot, void* data, std::size_t n) {
            places_.emplace_back(data, n);
            if (!slot.is_announced()) unannounced_.push_back(slot.name());
        });
        // The last first, as backward makes them ready, so that one plan serves steps with and without announcements.
        for (std::size_t i = slots_.size(); i-- > 0;) {
            if (slots_[i]->is_announced()) continue;
            const auto [data, n] = places_[i];
            conclude(*slots_[i], data, n, weight, is_weighted);
            slots_[i]->begin(engine_, data, n, is_weighted ? Reduction::Sum : options_.op, bound_.place(i));
        }
        std::exception_ptr first;
        overflows_ = 0;
        for_each_gradient([&](Slot& slot, void* data, std::size_t n) {
            try {
                overflows_ += slot.end(data, n);
            } catch (...) {
                if (!first) first = std::current_exception();
            }
        });
        engine_.synchronize();
        passes_ = 0;
        weights_ = 0;
        early_.clear();
        exposed_ = Clock::now() - began;
        if (first) std::rethrow_exception(first);
        if (overflows_ > 0 && !has_warned_) {
            has_warned_ = true;
            std::fprintf(stderr, "%s\n",
                         located("step()", std::to_string(overflows_) + " gradient elements became infinite in 16 "
                                                                        "bits; scale the loss down or use hvd::Bf16")
                             .c_str());
        }
    }

    Communicator world_;
    Model& model_;
    Optimizer optimizer_;
    OptimizerOptions options_;
    std::unordered_map<std::string, std::size_t> indices_;
    detail::BoundGradients bound_;
    std::vector<std::unique_ptr<Slot>> slots_;
    Engine<Communicator> engine_;
    detail::StateShare share_;
    std::unordered_map<std::string, bool> early_;  // announced in a pass that does not communicate
    std::vector<std::string> unannounced_;
    std::vector<std::pair<void*, std::size_t>> places_;  // of the gradients, in this step
    std::size_t passes_ = 0, no_sync_ = 0, overflows_ = 0;
    double weights_ = 0, total_ = 1;
    bool is_weighted_ = false, synchronized_ = false, has_warned_ = false;
    std::chrono::duration<double> exposed_{0};
};

template <class T, class A, class M, class O>
DistributedOptimizer(const Communicator<T, A>&, M&, O, OptimizerOptions = {})
    -> DistributedOptimizer<M, O, Communicator<T, A>>;
template <class T, class A, class M, class O, Compression C>
DistributedOptimizer(const Communicator<T, A>&, M&, O, C, OptimizerOptions = {})
    -> DistributedOptimizer<M, O, Communicator<T, A>, C>;

}  // namespace hvd
