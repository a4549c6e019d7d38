// Transfers: any number of sends and receives that do not depend on each other.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <hvd/transport/channel.hpp>

namespace hvd::detail {

/// Receives are posted first, sends in the order given; at most `window` of each are under way. Empty ones are left out,
/// so both sides must know which are.
template <Transport T>
class Transfers final : public Operation {
public:
    explicit Transfers(Channel<T> channel) : channel_{channel} {}

    void send(int peer, const void* data, std::size_t bytes) {
        if (bytes > 0) sends_.waiting.push_back({peer, const_cast<void*>(data), bytes});
    }
    void receive(int peer, void* data, std::size_t bytes) {
        if (bytes > 0) receives_.waiting.push_back({peer, data, bytes});
    }

    bool advance() override {
        const bool received =
            receives_.advance(channel_, [&](const Part& p) { return channel_.receive(p.peer, p.data, p.bytes); });
        const bool sent =
            sends_.advance(channel_, [&](const Part& p) { return channel_.send(p.peer, p.data, p.bytes); });
        return received && sent;
    }

    int waiting_for() const override { return !receives_.active.empty() ? receives_.active.front().peer : -1; }

private:
    using Message = typename T::Message;
    static constexpr std::size_t window = 32;

    struct Part {
        int peer;
        void* data;
        std::size_t bytes;
    };
    struct Active {
        int peer;
        Message message;
    };
    struct Direction {
        std::vector<Part> waiting;
        std::vector<Active> active;
        std::size_t next = 0;

        template <class Begin>
        bool advance(const Channel<T>& channel, Begin begin) {
            std::size_t kept = 0;
            for (std::size_t i = 0; i < active.size(); ++i) {
                if (channel.test(active[i].message)) continue;
                if (kept != i) std::swap(active[kept], active[i]);
                ++kept;
            }
            active.resize(kept);
            for (; next < waiting.size() && active.size() < window; ++next)
                active.push_back({waiting[next].peer, begin(waiting[next])});
            return active.empty() && next == waiting.size();
        }
    };

    Channel<T> channel_;
    Direction receives_, sends_;
};

/// The p - 1 other ranks in the order rank + 1, rank + 2, ..., so that not all begin with the same one.
template <class F>
void for_each_peer(int rank, int size, F&& f) {
    for (int distance = 1; distance < size; ++distance) f((rank + distance) % size);
}

/// Every rank's `bytes` at `own` reach all ranks, in rank order at `all`.
template <Transport T>
std::unique_ptr<Transfers<T>> gather_everywhere(Channel<T> channel, const void* own, void* all, std::size_t bytes) {
    auto transfers = std::make_unique<Transfers<T>>(channel);
    auto* out = static_cast<std::byte*>(all);
    const auto place = [&](int r) { return out + static_cast<std::size_t>(r) * bytes; };
    if (bytes > 0) std::memcpy(place(channel.rank()), own, bytes);
    for_each_peer(channel.rank(), channel.size(), [&](int peer) {
        transfers->receive(peer, place(peer), bytes);
        transfers->send(peer, own, bytes);
    });
    return transfers;
}

}  // namespace hvd::detail
