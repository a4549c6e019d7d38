// Communicator: a group of ranks, the transport between them, and the algorithm of their allreduce.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/algorithm/auto.hpp>
#include <hvd/comm/agreement.hpp>
#include <hvd/comm/context.hpp>
#include <hvd/comm/shared_array.hpp>
#include <hvd/elastic/state.hpp>
#include <hvd/transport/device_transport.hpp>

namespace hvd {
namespace detail {

template <class T>
consteval bool explain_transport() {
    if constexpr (Transport<T>) return true;
    else if constexpr (!HasRanks<T>)
        static_assert(Transport<T>, "hvd: this transport lacks rank(), size() or topology(); see hvd::Transport");
    else if constexpr (!HasMessages<T>)
        static_assert(Transport<T>, "hvd: this transport lacks Message, send, receive or test; see hvd::Transport");
    else static_assert(Transport<T>, "hvd: this transport lacks subgroup(), worker() or name; see hvd::Transport");
    return false;
}

template <class A, class T>
consteval bool explain_algorithm() {
    if constexpr (Algorithm<A, T>) return true;
    else if constexpr (!HasPolicyName<A>)
        static_assert(Algorithm<A, T>, "hvd: this algorithm lacks a static constexpr name; see hvd::Algorithm");
    else if constexpr (!HasPrepare<A, T>)
        static_assert(
            Algorithm<A, T>,
            "hvd: this algorithm lacks prepare(transport) const, which returns its state; see hvd::Algorithm");
    else
        static_assert(Algorithm<A, T>,
                      "hvd: this algorithm lacks run(channel, state, std::span<E> data, op) const; see hvd::Algorithm");
    return false;
}

template <class T, class A>
consteval bool explain_communicator() {
    if constexpr (explain_transport<T>()) return explain_algorithm<A, T>();
    else return false;
}

/// The state of the algorithm, or nothing where a sentence has been said already.
template <class T, class A, bool is_right>
struct StateOf {
    struct type {};
};
template <class T, class A>
struct StateOf<T, A, true> {
    using type = AlgorithmState<A, T>;
};

}  // namespace detail

template <class T, class A = Auto>
class Communicator;

namespace detail {
template <DeviceTransport T>
using HostCommunicator = Communicator<typename T::bootstrap_type, Auto>;
}

/// A group of ranks that call collectives together. A cheap handle: copies mean the same group. Calls on one communicator
/// come from one thread at a time, in the same order on all ranks.
template <class T, class A>
class Communicator {
public:
    /// Transport and algorithm are what they must be; says in one sentence what is wrong otherwise.
    static constexpr bool is_right = detail::explain_communicator<T, A>();
    using transport_type = T;
    using algorithm_type = A;
    using State = typename detail::StateOf<T, A, is_right>::type;

    /// Collective over the ranks of `transport`.
    explicit Communicator(T transport, A algorithm = {}, CommunicatorOptions options = {})
        : context_{make_context(std::move(transport), options)} {
        if constexpr (is_right) {
            agree_on(algorithm, "Communicator with");
            make_host();
            prepare(std::move(algorithm));
        }
    }

    int rank() const { return context().rank(); }
    int size() const { return context().size(); }
    /// Place among the ranks of this node, and their number.
    int local_rank() const { return topology().local_rank(); }
    int local_size() const { return topology().local_size(); }
    /// Place of this node among those that have this local rank, and their number.
    int cross_rank() const { return topology().cross_rank(); }
    int cross_size() const { return topology().cross_size(); }
    /// Every node has the same number of ranks.
    bool is_homogeneous() const { return topology().is_homogeneous(); }
    const Topology& topology() const { return context().transport.topology(); }

    /// False for the communicator that `split` or `subset` gives to ranks outside of it.
    bool is_member() const { return context_ != nullptr; }

    /// Collective: ranks of one `color` form a communicator, ordered by `key`, then by rank here. A negative color: none.
    Communicator split(int color, int key = 0) const;

    /// Collective over this communicator: the `ranks` form one, in the order given; all ranks give the same. Ranks beyond
    /// the size of this one are left out, so that what is written for many runs on few.
    Communicator subset(std::span<const int> ranks) const;
    Communicator subset(std::initializer_list<int> ranks) const {
        return subset(std::span<const int>{ranks.begin(), ranks.size()});
    }

    /// Collective: the same ranks and algorithm with messages of their own, so that calls on both may run side by side.
    Communicator duplicate() const {
        const Channel<T> channel = context().next_channel();
        agree(channel, detail::Call::of("duplicate"), "duplicate");
        std::vector<int> members(static_cast<std::size_t>(size()));
        for (std::size_t r = 0; r < members.size(); ++r) members[r] = static_cast<int>(r);
        Communicator twin = child(members, channel.tag());
        twin.context().state = context().state;
        return twin;
    }

    /// Collective: the same ranks with another algorithm.
    template <class Other>
    Communicator<T, Other> with(Other algorithm) const;

    /// Collective: `n` elements of this rank, zero at first, in memory that the ranks of a node share, so that Direct reduces
    /// them in place. `n` may differ by rank. Where ranks cannot share memory it is ordinary memory. It lives as long as
    /// the result or the communicator, whichever is longer.
    template <Scalar E>
    SharedArray<E> allocate_shared(std::size_t n) const;

    /// What is kept when workers die, and restored when the body is entered again. Inert in a job that keeps nothing,
    /// and for groups of some of the ranks only.
    hvd::State state() const { return hvd::State{context().state.get()}; }

    /// The same ranks for tensors and objects that lie on the host: this communicator, or on hvd::Nccl that of its bootstrap.
    auto host() const {
        if constexpr (detail::DeviceTransport<T>)
            return *static_cast<const detail::HostCommunicator<T>*>(context().host.get());
        else return *this;
    }

    T& transport() const { return context().transport; }
    const A& algorithm() const { return prepared_->algorithm; }
    const CommunicatorOptions& options() const { return context().options; }

    /// For collectives: what the communicators of this group share, and the state of the algorithm.
    detail::Context<T>& context() const {
        if (!context_)
            throw UsageError{"hvd: this rank is not a member of the communicator; ask is_member() before using it"};
        return *context_;
    }
    const std::shared_ptr<detail::Context<T>>& shared_context() const {
        context();
        return context_;
    }
    State& algorithm_state() const { return prepared_->state; }

private:
    template <class, class>
    friend class Communicator;

    struct Prepared {
        A algorithm;
        State state;
    };

    Communicator() = default;
    Communicator(std::shared_ptr<detail::Context<T>> context, A algorithm, bool is_new_group)
        : context_{std::move(context)} {
        if constexpr (is_right) {
            if (is_new_group) make_host();
            prepare(std::move(algorithm));
        }
    }

    /// Where tensors lie on devices, what lies on the host has messages of its own.
    void make_host() {
        if constexpr (detail::DeviceTransport<T>) {
            std::vector<int> all(static_cast<std::size_t>(size()));
            for (std::size_t r = 0; r < all.size(); ++r) all[r] = static_cast<int>(r);
            context_->host = std::make_shared<detail::HostCommunicator<T>>(
                transport().bootstrap().subgroup(all, detail::setup_tag), Auto{}, context_->options);
        }
    }

    static std::shared_ptr<detail::Context<T>> make_context(T transport, CommunicatorOptions options) {
        if constexpr (is_right) return std::make_shared<detail::Context<T>>(std::move(transport), options);
        else return nullptr;
    }

    void prepare(A algorithm) {
        auto state = algorithm.prepare(context_->transport);
        prepared_ = std::shared_ptr<Prepared>{new Prepared{std::move(algorithm), std::move(state)}};
        if constexpr (!detail::DeviceTransport<T> && requires { direct_state_of(prepared_->state); }) {
            detail::DirectState* direct = direct_state_of(prepared_->state);
            if (context_->board && !context_->direct && direct != nullptr && direct->region)
                context_->direct = {prepared_, direct};
        }
    }

    /// All ranks have the same algorithm with the same settings.
    template <class Other>
    void agree_on(const Other& algorithm, std::string_view call_name) const {
        const std::string name{std::string_view{Other::name}};
        detail::Call call = detail::Call::of(call_name);
        call.with(detail::hash_bytes(detail::hash_begin, name));
        std::string words;
        for (std::size_t number : detail::settings_of(algorithm)) {
            call.with(std::uint64_t{number});
            words += (words.empty() ? " {" : ", ") + std::to_string(number);
        }
        call.words("algorithm " + name + words + (words.empty() ? "" : "}"));
        agree(context().next_channel(), std::move(call), call_name);
    }

    /// Waits until all ranks have come here with the same call.
    void agree(const Channel<T>& channel, detail::Call call, std::string_view name) const {
        detail::Agreement<T> agreement{context(), channel, std::move(call)};
        detail::wait_for(agreement, channel, name);
    }

    Communicator child(const std::vector<int>& members, int id) const {
        for (int member : members)
            if (member == rank())
                return Communicator{
                    std::make_shared<detail::Context<T>>(transport().subgroup(members, id), context_->options),
                    prepared_->algorithm, true};
        return {};
    }

    std::shared_ptr<detail::Context<T>> context_;
    std::shared_ptr<Prepared> prepared_;
};

template <class T, class A>
Communicator<T, A> Communicator<T, A>::split(int color, int key) const {
    struct Choice {
        int color, key;
    };
    const Channel<T> channel = context().next_channel();
    agree(channel, detail::Call::of("split"), "split");
    const Choice own{color, key};
    std::vector<Choice> choices(static_cast<std::size_t>(size()));
    const auto gather = detail::gather_everywhere(channel, &own, choices.data(), sizeof own);
    detail::wait_for(*gather, channel, "split");

    std::vector<int> members;
    for (int r = 0; color >= 0 && r < size(); ++r) {
        const Choice& choice = choices[static_cast<std::size_t>(r)];
        if (choice.color != color) continue;
        auto place = members.end();
        while (place != members.begin() && choices[static_cast<std::size_t>(*(place - 1))].key > choice.key) --place;
        members.insert(place, r);
    }
    return child(members, channel.tag());
}

template <class T, class A>
Communicator<T, A> Communicator<T, A>::subset(std::span<const int> ranks) const {
    const Channel<T> channel = context().next_channel();
    detail::Call call = detail::Call::of("subset");
    std::vector<int> members;
    std::string words;
    for (int r : ranks) {
        const std::string name = std::to_string(r);
        words += (words.empty() ? "{" : ", ") + name;
        call.with(static_cast<std::uint64_t>(r));
        for (int m : members)
            if (m == r)
                call.wrong(
                    detail::located("subset", rank(), size(), "rank " + name + " is named twice; name each once"));
        if (r < 0)
            call.wrong(detail::located("subset", rank(), size(), "there is no rank " + name + "; count ranks from 0"));
        if (r < size()) members.push_back(r);
    }
    agree(channel, std::move(call.words(words + "}")), "subset");
    return child(members, channel.tag());
}

template <class T, class A>
template <class Other>
Communicator<T, Other> Communicator<T, A>::with(Other algorithm) const {
    if constexpr (Communicator<T, Other>::is_right) {
        agree_on(algorithm, "with");
        return Communicator<T, Other>{context_, std::move(algorithm), false};
    }
}

template <class T, class A>
template <Scalar E>
SharedArray<E> Communicator<T, A>::allocate_shared(std::size_t n) const {
    const Channel<T> channel = context().next_channel();
    agree(channel, detail::Call::of("allocate_shared"), "allocate_shared");
    const auto owner = detail::allocate_on_node(context(), channel, n * sizeof(E));
    return SharedArray<E>{owner.first, reinterpret_cast<E*>(owner.second), n};
}

namespace detail {

/// Runs an operation of `comm` to its end in the calling thread. On devices that is its end for the rank's stream: the host
/// does not wait.
template <class T, class A>
void complete(const Communicator<T, A>& comm, Operation& operation, std::string_view name) {
    wait_for(operation, Channel<T>{comm.transport(), 0}, name);
    if constexpr (DeviceTransport<T>) comm.transport().join();
}

}  // namespace detail
}  // namespace hvd
