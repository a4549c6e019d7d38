// What an algorithm is, and the common part of those that are schedules of messages.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hvd/algorithm/schedule_run.hpp>

namespace hvd {
namespace detail {

template <class A>
concept HasPolicyName = requires {
    std::string_view{A::name};
};

template <class A, class T>
using AlgorithmState = decltype(std::declval<const A&>().prepare(std::declval<T&>()));

template <class A, class T>
concept HasPrepare = requires {
    typename AlgorithmState<A, T>;
};

template <class A, class T>
concept HasRun = requires(const A& a, Channel<T> c, AlgorithmState<A, T>& s, std::span<float> v) {
    a.run(c, s, v, sum);
};

/// Algorithms that can be left and taken up again; the others run in one piece when their turn has come.
template <class A, class T>
concept HasStart = requires(const A& a, Channel<T> c, AlgorithmState<A, T>& s, std::span<float> v) {
    { a.start(c, s, v, sum) } -> std::convertible_to<std::unique_ptr<Operation>>;
};

/// The same for elements of any type, so that it is compiled once: `n` elements at `data`, reduced with `fold`.
template <class A, class T>
concept HasStartFold = requires(const A& a, Channel<T> c, AlgorithmState<A, T>& s, void* data, std::size_t n,
                                Fold fold) {
    { a.start_fold(c, s, data, n, fold) } -> std::convertible_to<std::unique_ptr<Operation>>;
};

/// Algorithms that can stop half way, with each rank holding one block reduced, and go on from there.
template <class A, class T>
concept Splits = requires(const A& a, Channel<T> c, AlgorithmState<A, T>& s, void* data, const Layout& blocks,
                          Fold fold) {
    { a.start_reduce_scatter(c, s, data, blocks, fold) } -> std::convertible_to<std::unique_ptr<Operation>>;
    { a.start_allgather(c, s, data, blocks, std::size_t{}) } -> std::convertible_to<std::unique_ptr<Operation>>;
};

/// The numbers in an algorithm that must be equal on all ranks, as its `settings()` gives them; an algorithm may have none.
template <class A>
std::vector<std::size_t> settings_of(const A& algorithm) {
    if constexpr (requires { algorithm.settings(); }) return algorithm.settings();
    else return {};
}

/// Its messages are told apart by their tag, so that several operations may be under way on one communicator.
template <class A>
consteval bool is_tagged() {
    if constexpr (requires { A::is_tagged; }) return A::is_tagged;
    else return false;
}

}  // namespace detail

/// An allreduce algorithm, a value of a small copyable type: `static name`, `prepare(transport)`, which is called once
/// per communicator by all its ranks and returns the state (scratch, sub-communicators), and
/// `run(channel, state, std::span<E> data, op)`, which reduces `data` in place over all ranks of the channel. Optional:
/// `settings()`, a std::vector<std::size_t> of what must be equal on all ranks, which is checked.
template <class A, class T>
concept Algorithm =
    std::copy_constructible<A> && detail::HasPolicyName<A> && detail::HasPrepare<A, T> && detail::HasRun<A, T>;

namespace detail {

template <Transport T>
void wait_for(Operation& operation, const Channel<T>& channel, std::string_view name) {
    channel.worker()->wait_until([&] { return operation.advance(); },
                                 [&] {
                                     std::string text{name};
                                     text += " on rank " + std::to_string(channel.rank()) + " of " +
                                             std::to_string(channel.size());
                                     if (const int peer = operation.waiting_for(); peer >= 0)
                                         text += ", waiting for rank " + std::to_string(peer) + ",";
                                     return text;
                                 });
}

/// State of algorithms that need nothing but scratch.
struct ScratchState {
    std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>();
};

/// Begins the schedule of an algorithm that consists of messages only.
template <Transport T, Schedule S>
std::unique_ptr<Operation> begin_schedule(Channel<T> channel, ScratchState& state, S schedule, Layout layout,
                                          void* data, Fold fold) {
    return std::make_unique<ScheduleRun<T, S>>(channel, std::move(schedule), std::move(layout), data, fold, state.pool);
}

/// An algorithm that knows no other way is run in one piece.
template <class A, Transport T, Scalar E, class Op>
class BlockingRun final : public Operation {
public:
    BlockingRun(const A& algorithm, Channel<T> channel, AlgorithmState<A, T>& state, std::span<E> data, const Op& op)
        : algorithm_{algorithm}, channel_{channel}, state_{state}, data_{data}, op_{op} {}
    bool advance() override {
        algorithm_.run(channel_, state_, data_, op_);
        return true;
    }

private:
    const A& algorithm_;
    Channel<T> channel_;
    AlgorithmState<A, T>& state_;
    std::span<E> data_;
    const Op& op_;
};

/// Begins an allreduce of `data` in place. The algorithm, its state and `op` must outlive the operation; so must `finish`,
/// which the algorithm may take upon itself.
template <class A, Transport T, Scalar E, class Op>
std::unique_ptr<Operation> start_algorithm(const A& algorithm, Channel<T> channel, AlgorithmState<A, T>& state,
                                           std::span<E> data, const Op& op, Finish* finish = nullptr) {
    if constexpr (HasStartFold<A, T>)
        return algorithm.start_fold(channel, state, data.data(), data.size(), Fold::of<E>(op).then(finish));
    else if constexpr (HasStart<A, T>) return algorithm.start(channel, state, data, op);
    else return std::make_unique<BlockingRun<A, T, E, Op>>(algorithm, channel, state, data, op);
}

/// `run` of an algorithm that can be started.
template <class A, Transport T, class State, Scalar E, class Op>
void run_started(const A& algorithm, Channel<T> channel, State& state, std::span<E> data, const Op& op) {
    const auto operation = start_algorithm(algorithm, channel, state, data, op);
    wait_for(*operation, channel, A::name);
}

}  // namespace detail
}  // namespace hvd
