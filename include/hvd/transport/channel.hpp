// Channel: the messages of one operation, kept apart from all others by their tag.
#pragma once

#include <string>

#include <hvd/transport/transport.hpp>

namespace hvd {

/// What an algorithm sees of a transport while it runs. Cheap to copy; refers to the transport.
template <class T>
class Channel {
public:
    using Message = typename T::Message;

    Channel(T& transport, int tag) : transport_{&transport}, tag_{tag} {}

    int rank() const { return transport_->rank(); }
    int size() const { return transport_->size(); }
    int tag() const { return tag_; }
    T& transport() const { return *transport_; }
    std::shared_ptr<detail::Worker> worker() const { return transport_->worker(); }

    /// Begins to send; `data` must stay as it is until the message is complete.
    Message send(int peer, const void* data, std::size_t bytes) const {
        return transport_->send(peer, tag_, static_cast<const std::byte*>(data), bytes);
    }

    /// Begins to receive at most `bytes`; `data` is overwritten.
    Message receive(int peer, void* data, std::size_t bytes) const {
        return transport_->receive(peer, tag_, static_cast<std::byte*>(data), bytes);
    }

    /// True once the message is complete. Never blocks.
    bool test(Message& message) const { return transport_->test(message); }

    /// Polls until the message is complete; throws when the job ends.
    void wait(Message& message) const {
        worker()->wait_until(
            [&] { return test(message); },
            [&] { return "a message on rank " + std::to_string(rank()) + " of " + std::to_string(size()); });
    }

private:
    T* transport_;
    int tag_;
};

}  // namespace hvd
