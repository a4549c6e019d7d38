// Outbox: the sends of a schedule that are under way, and the chunks that must stay as they are until they are delivered.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include <hvd/algorithm/schedule.hpp>
#include <hvd/transport/channel.hpp>

namespace hvd::detail {

template <Transport T>
class Outbox {
public:
    /// Begins to send, unless as many as there is room for are under way.
    bool send(const Channel<T>& channel, int peer, const std::byte* data, std::size_t bytes, Chunks chunks) {
        if (!retire(channel, most - 1)) return false;
        sends_[count_].message = channel.send(peer, data, bytes);
        sends_[count_].chunks = chunks;
        ++count_;
        return true;
    }

    /// Forgets the sends that are complete; true when at most `left` remain.
    bool retire(const Channel<T>& channel, std::size_t left) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            if (channel.test(sends_[i].message)) continue;
            if (kept != i) std::swap(sends_[kept], sends_[i]);
            ++kept;
        }
        count_ = kept;
        return count_ <= left;
    }

    /// Some of the chunks are still being sent.
    bool holds(const Channel<T>& channel, Chunks chunks) {
        retire(channel, 0);
        for (std::size_t i = 0; i < count_; ++i)
            if (overlap(sends_[i].chunks, chunks)) return true;
        return false;
    }

private:
    static constexpr std::size_t most = 16;

    struct Send {
        typename T::Message message;
        Chunks chunks;
    };

    std::array<Send, most> sends_{};
    std::size_t count_ = 0;
};

}  // namespace hvd::detail
