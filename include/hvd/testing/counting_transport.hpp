// A transport that counts what it sends, to check the cost of an algorithm.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <hvd/transport/transport.hpp>

namespace hvd::testing {

/// What one rank has sent. Messages without a byte count, too.
struct Traffic {
    std::size_t messages = 0, bytes = 0;
    /// The part of it that left the node.
    std::size_t messages_between_nodes = 0, bytes_between_nodes = 0;

    bool operator==(const Traffic&) const = default;
};

/// Wraps a transport and counts, per rank, together with the subgroups made from it. Copies count together. The
/// collectives that the transport may bring are hidden, so that Native runs on messages, too.
template <Transport T>
class Counting {
public:
    static constexpr std::string_view name = "counting";
    using memory_space = typename T::memory_space;
    using Message = typename T::Message;

    explicit Counting(T transport) : Counting{std::move(transport), std::make_shared<Counters>()} {}

    int rank() const { return inner_.rank(); }
    int size() const { return inner_.size(); }
    const Topology& topology() const { return inner_.topology(); }
    std::shared_ptr<hvd::detail::Worker> worker() { return inner_.worker(); }

    Message send(int peer, int tag, const std::byte* data, std::size_t bytes) {
        ++counters_->messages;
        counters_->bytes += bytes;
        if (topology().node_of(peer) != topology().node()) {
            ++counters_->messages_between_nodes;
            counters_->bytes_between_nodes += bytes;
        }
        return inner_.send(peer, tag, data, bytes);
    }
    Message receive(int peer, int tag, std::byte* data, std::size_t bytes) {
        return inner_.receive(peer, tag, data, bytes);
    }
    bool test(Message& message) { return inner_.test(message); }
    Counting subgroup(std::span<const int> members, int id) {
        return Counting{inner_.subgroup(members, id), counters_};
    }

    /// What this rank has sent since the last `reset`.
    Traffic traffic() const {
        return {counters_->messages, counters_->bytes, counters_->messages_between_nodes,
                counters_->bytes_between_nodes};
    }
    void reset() {
        counters_->messages = counters_->bytes = 0;
        counters_->messages_between_nodes = counters_->bytes_between_nodes = 0;
    }

private:
    struct Counters {
        std::atomic<std::size_t> messages = 0, bytes = 0, messages_between_nodes = 0, bytes_between_nodes = 0;
    };

    Counting(T transport, std::shared_ptr<Counters> counters)
        : inner_{std::move(transport)}, counters_{std::move(counters)} {}

    T inner_;
    std::shared_ptr<Counters> counters_;
};

}  // namespace hvd::testing
