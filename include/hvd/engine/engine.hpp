// Engine: asynchronous operations by name, in any order on each rank, fused and carried out in the background.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/comm/allreduce.hpp>
#include <hvd/engine/core.hpp>

namespace hvd {
namespace detail {

template <class Comm>
class EngineCompletion final : public EngineCompletionBase {
public:
    EngineCompletion(const std::string& name, std::shared_ptr<EngineCore<Comm>> core)
        : EngineCompletionBase{name}, core_{std::move(core)} {}
    std::string what() const override {
        return "'" + EngineCompletionBase::what() + "' on rank " + std::to_string(core_->comm().rank()) + " of " +
               std::to_string(core_->comm().size());
    }
    void progress() override { core_->drive(); }
    void begin_wait() override { core_->pending.begin_wait(*this, waiters); }
    void end_wait() override { core_->pending.end_wait(waiters); }
    /// On devices it is done when they have taken it; what this rank's stream is given from now on runs behind it.
    void waited() override {
        if constexpr (DeviceTransport<typename Comm::transport_type>) core_->comm().transport().join();
    }
    /// All that the engine does waits for the same, so that none of it is waited for once more.
    void give_up(const std::exception_ptr& error) override { core_->give_up(error); }
    void abandon() override {
        core_->give_up(std::make_exception_ptr(
            TransportError{"hvd: " + what() + " was given up while an exception was on its way"}));
    }

private:
    std::shared_ptr<EngineCore<Comm>> core_;
};

/// Lets every wait of the worker take the engine further, when it has no thread.
template <class Comm>
class EngineProgress final : public Operation {
public:
    explicit EngineProgress(std::weak_ptr<EngineCore<Comm>> core) : core_{std::move(core)} {}
    bool advance() override {
        const auto core = core_.lock();
        if (!core || core->pending.has_failed()) return true;
        core->drive();
        return false;
    }

private:
    std::weak_ptr<EngineCore<Comm>> core_;
};

/// Whether hvd may call the transport from a thread of its own.
template <class T>
bool may_use_threads(const T& transport) {
    if constexpr (requires { transport.thread_level(); }) return transport.thread_level() >= T::thread_multiple;
    else return true;
}

}  // namespace detail

/// Named operations on one communicator. Every rank builds its engines in the same order. Names pair operations between
/// ranks; the order in which they are submitted may differ. Several threads may submit. The first step is agreed on;
/// steps like it need no word between the ranks. See docs/engine.md.
template <class Comm>
class Engine {
public:
    /// Collective over `comm`. Throws UsageError for options or HVD_* variables that make no sense.
    explicit Engine(const Comm& comm, EngineOptions options = {})
        : core_{std::make_shared<detail::EngineCore<Comm>>(
              comm, detail::settle(options, detail::may_use_threads(comm.transport())))} {
        if (!core_->settings.timeline.empty()) start_timeline(core_->settings.timeline);
        if (core_->settings.background) thread_ = std::thread{[this] { work_in_background(); }};
        else worker()->add(std::make_shared<detail::EngineProgress<Comm>>(core_));
    }
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    /// Local: completes what all ranks have submitted, fails the rest, and never hangs.
    ~Engine() {
        stop_.store(true);
        core_->pending.wake();
        if (thread_.joinable()) thread_.join();
        core_->close(std::uncaught_exceptions() > exceptions_);
    }

    /// Reduces `x`, a tensor or a list of tensors, in place; as hvd::allreduce. The tensors must outlive the request's end.
    template <class X, class Op = Sum>
    Request allreduce(const std::string& name, X&& x, const Op& op = {}, ReduceOptions options = {}) {
        if constexpr (detail::explain_in_place<X, Op>()) {
            detail::require_place<T, X>();
            if constexpr (Tensor<X>) return submit_reduction(name, x, op, options, 0);
            else return submit_group(name, x, op, options);
        } else {
            return {};
        }
    }

    /// As hvd::allgather; `out` is resized when the rows come.
    template <class In, class Out>
    Request allgather(const std::string& name, In&& in, Out&& out) {
        if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
            detail::require_place<T, In, Out>();
            const auto input = detail::Input::of(in);
            const auto output = detail::Output::of(out);
            auto m = metadata(name, detail::Kind::Allgather, input, "allgather");
            return submit_task(std::move(m), [input, output](const Comm& comm) {
                return std::make_unique<detail::AllgatherTask<T>>(comm.shared_context(), input, output);
            });
        } else {
            return {};
        }
    }

    /// As hvd::broadcast.
    template <class X>
    Request broadcast(const std::string& name, X&& x, int root) {
        if constexpr (detail::explain_writable<X>()) {
            detail::require_place<T, X>();
            using E = tensor_value_t<X>;
            void* data = detail::data_of(x);
            const std::size_t n = detail::size_of(x);
            auto m = shaped(name, detail::Kind::Broadcast, x, "broadcast from rank " + std::to_string(root));
            m.root = static_cast<std::uint64_t>(root);
            return submit_task(std::move(m), [data, n, root](const Comm& comm) {
                return std::make_unique<detail::BroadcastTask<T>>(comm.shared_context(), data, n,
                                                                  detail::scalar_info<E>, root);
            });
        } else {
            return {};
        }
    }

    /// As hvd::reduce_scatter.
    template <class In, class Out, class Op = Sum>
    Request reduce_scatter(const std::string& name, In&& in, Out&& out, const Op& op = {}, ReduceOptions options = {}) {
        if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
            detail::require_place<T, In, Out>();
            if constexpr (detail::explain_op<Op, tensor_value_t<In>>()) {
                const auto input = detail::Input::of(in);
                const auto output = detail::Output::of(out);
                auto m = shaped(name, detail::Kind::ReduceScatter, in,
                                "reduce_scatter with " + std::string{detail::op_name<Op>()});
                return submit_task(std::move(m), [input, output, op, options](const Comm& comm) {
                    using E = tensor_value_t<In>;
                    return std::make_unique<detail::ReduceScatterTask<T, E, Op>>(comm.shared_context(), input, output,
                                                                                 op, options);
                });
            }
        }
        return {};
    }

    /// As hvd::alltoall; `receive_counts` is written when the rows come.
    template <class In, class Out>
    Request alltoall(const std::string& name, In&& in, std::span<const std::size_t> send_counts, Out&& out,
                     std::vector<std::size_t>& receive_counts) {
        if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
            detail::require_place<T, In, Out>();
            const auto input = detail::Input::of(in);
            const auto output = detail::Output::of(out);
            auto m = metadata(name, detail::Kind::Alltoall, input, "alltoall");
            std::vector<std::size_t> counts(send_counts.begin(), send_counts.end());
            return submit_task(std::move(m), [input, output, counts, &receive_counts](const Comm& comm) {
                return std::make_unique<detail::AlltoallTask<T>>(comm.shared_context(), input, counts, output,
                                                                 receive_counts);
            });
        } else {
            return {};
        }
    }

    /// Waits for all that this rank has submitted, and throws the first failure. A step ends here.
    void synchronize() {
        std::exception_ptr first;
        for (auto& completion : core_->pending.completions()) {
            Request request{worker(), std::move(completion)};
            try {
                request.wait();
            } catch (...) {
                if (!first) first = std::current_exception();
            }
        }
        core_->count_step();
        if (first) std::rethrow_exception(first);
    }

    /// Tells the others that this rank has nothing more, and takes part in what they still do, with nothing, until all
    /// ranks have joined. Returns the last rank to join. Nothing may be pending. May be called again and again.
    int join() {
        static_assert(
            !detail::DeviceTransport<T>,
            "hvd: join() is not made for hvd::Nccl; give all ranks the same number of batches, as ShardedDataset "
            "does");
        synchronize();
        core_->begin_join();
        worker()->wait_until(
            [&] { return core_->drive(), core_->join_result() >= 0 || core_->pending.has_failed(); },
            [&] { return "join on rank " + std::to_string(comm().rank()) + " of " + std::to_string(comm().size()); });
        core_->pending.rethrow_failure();
        return core_->join_result();
    }

    /// The buckets and how often they served.
    PlanInfo plan() const { return core_->plan(); }

    /// All ranks call; rank 0 writes a Chrome trace to `path`, valid JSON whenever it is read.
    void start_timeline(const std::string& path) {
        if (comm().rank() == 0) core_->timeline.start(path);
    }
    void stop_timeline() { core_->timeline.stop(); }

    /// Whether a thread of the engine's own works while the caller computes.
    bool has_background() const { return thread_.joinable(); }

    /// For the optimizer: a tensor at `place` of a buffer in which tensors lie side by side.
    template <class X, class Op>
    Request allreduce_bound(const std::string& name, X& x, const Op& op, std::uint64_t place) {
        return submit_reduction(name, x, op, {}, place);
    }

private:
    using T = typename Comm::transport_type;

    const Comm& comm() const { return core_->comm(); }
    std::shared_ptr<detail::Worker> worker() const { return comm().transport().worker(); }

    /// Of the shape.
    template <class X>
    static std::uint64_t signature_of(const X& x) {
        std::uint64_t signature = detail::hash_begin;
        if constexpr (requires { detail::TensorTraits<X>::shape(x); })
            for (std::size_t extent : detail::shape_of(x)) signature = detail::hash_value(signature, extent);
        else signature = detail::hash_value(signature, detail::size_of(x));
        return signature;
    }

    template <class X>
    detail::Metadata shaped(const std::string& name, detail::Kind kind, const X& x, const std::string& words) {
        using E = tensor_value_t<X>;
        detail::Metadata m;
        m.name = name;
        m.kind = static_cast<std::uint64_t>(kind);
        m.bytes = detail::size_of(x) * sizeof(E);
        m.scalar_id = detail::scalar_id<E>;
        m.scalar_size = sizeof(E);
        m.text = words + " of " + std::string{detail::scalar_name<E>()} + " [";
        m.signature = detail::hash_value(detail::hash_bytes(detail::hash_begin, words), m.scalar_id);
        bool is_first = true;
        const auto add = [&](std::size_t extent) {
            m.signature = detail::hash_value(m.signature, extent);
            m.text += (is_first ? "" : ", ") + std::to_string(extent);
            is_first = false;
        };
        if constexpr (requires { detail::TensorTraits<X>::shape(x); })
            for (std::size_t extent : detail::shape_of(x)) add(extent);
        else add(detail::size_of(x));
        m.text += "]";
        return m;
    }

    detail::Metadata metadata(const std::string& name, detail::Kind kind, const detail::Input& in,
                              const std::string& words) {
        detail::Metadata m;
        m.name = name;
        m.kind = static_cast<std::uint64_t>(kind);
        m.scalar_id = in.scalar.id;
        m.scalar_size = in.scalar.size;
        m.width = in.rows.width;
        m.text = words + " of rows of " + std::string{in.scalar.name};
        m.signature = detail::hash_value(detail::hash_bytes(detail::hash_begin, words), in.scalar.id);
        for (std::size_t extent : in.rows.trailing) {
            m.trailing.push_back(extent);
            m.signature = detail::hash_value(m.signature, extent);
            m.text += " x " + std::to_string(extent);
        }
        return m;
    }

    Request submit(std::shared_ptr<detail::Entry<Comm>> entry) {
        auto completion = entry->shared_completion();
        core_->submit(std::move(entry));
        return Request{worker(), std::move(completion)};
    }

    std::shared_ptr<detail::Completion> completion(const std::string& name) {
        return std::make_shared<detail::EngineCompletion<Comm>>(name, core_);
    }

    template <class X, class Op>
    Request submit_reduction(const std::string& name, X& x, const Op& op, ReduceOptions options, std::uint64_t place) {
        using E = tensor_value_t<X>;
        using Entry = detail::ReduceEntry<Comm, E, Op>;
        std::uint64_t key = detail::hash_value(detail::op_id<Op>, detail::scalar_id<E>);
        for (double factor : {options.prescale, options.postscale}) {
            std::uint64_t bits;
            std::memcpy(&bits, &factor, sizeof bits);
            key = detail::hash_value(key, bits);
        }
        const std::uint64_t signature = detail::hash_value(signature_of(x), key);
        const std::span<E> data{detail::data_of(x), detail::size_of(x)};
        auto done = completion(name);
        if constexpr (Entry::can_be_renewed) {  // as in the step before
            const bool is_renewed = core_->resubmit(name, [&](detail::Entry<Comm>& entry) {
                return entry.kind() == &Entry::own_kind &&
                       static_cast<Entry&>(entry).renew(comm(), signature, place, done, data, op);
            });
            if (is_renewed) return Request{worker(), std::move(done)};
        }
        detail::Metadata m =
            shaped(name, detail::Kind::Allreduce, x, "allreduce with " + std::string{detail::op_name<Op>()});
        if (options.prescale != 1 || options.postscale != 1) {
            m.text +=
                ", prescale " + std::to_string(options.prescale) + ", postscale " + std::to_string(options.postscale);
        }
        m.signature = signature;
        m.fuse_key = std::same_as<Op, Adasum> ? 0 : key | 1;
        m.place = place;
        return submit(std::make_shared<Entry>(comm(), std::move(m), std::move(done), data, op, options));
    }

    template <class Make>
    Request submit_task(detail::Metadata m, Make make) {
        auto done = completion(m.name);
        return submit(std::make_shared<detail::TaskEntry<Comm, Make>>(std::move(m), std::move(done), std::move(make)));
    }

    /// A group is one operation: all of it or nothing.
    template <class L, class Op>
    Request submit_group(const std::string& name, L& list, const Op& op, ReduceOptions options) {
        detail::Metadata m;
        m.name = name;
        m.kind = static_cast<std::uint64_t>(detail::Kind::ReduceScatter);  // needs all ranks
        m.text = "allreduce of a group with " + std::string{detail::op_name<Op>()} + " (";
        m.signature = detail::hash_value(detail::hash_bytes(detail::hash_begin, "group"), detail::op_id<Op>);
        detail::for_each_tensor(list, [&](auto& x, std::size_t i) {
            const detail::Metadata part = shaped("", detail::Kind::Allreduce, x, "");
            m.signature = detail::hash_value(m.signature, part.signature);
            m.text += (i > 0 ? "," : "") + part.text;
        });
        m.text += ")";
        return submit_task(std::move(m), [pieces = detail::views_of(list), op, options](const Comm& comm) mutable {
            return std::make_unique<detail::GroupTask<T, typename Comm::algorithm_type, Op>>(comm, pieces, op, options);
        });
    }

    /// Sleeps while the caller computes and no bucket is complete, or while the caller waits and so drives itself.
    void work_in_background() {
        using std::chrono::microseconds;
        const auto stops = [this] { return stop_.load(); };
        microseconds nap{50};
        while (!stop_.load()) {
            if (!core_->pending.somebody_waits()) core_->drive();
            if (core_->is_active() && !core_->pending.somebody_waits()) {
                std::this_thread::sleep_for(nap);
                nap = nap < microseconds{400} ? nap * 2 : nap;
            } else {
                nap = microseconds{50};
                core_->pending.sleep(microseconds{20000}, stops);
            }
        }
    }

    std::shared_ptr<detail::EngineCore<Comm>> core_;
    const int exceptions_ = std::uncaught_exceptions();
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

template <class T, class A>
Engine(const Communicator<T, A>&, EngineOptions = {}) -> Engine<Communicator<T, A>>;

}  // namespace hvd
