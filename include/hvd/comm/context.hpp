// Context: what all communicators of one group of ranks share, whatever their algorithm.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <hvd/algorithm/direct_state.hpp>
#include <hvd/algorithm/scratch.hpp>
#include <hvd/comm/board.hpp>
#include <hvd/transport/channel.hpp>
#include <hvd/transport/share.hpp>

namespace hvd {

/// How a communicator behaves.
struct CommunicatorOptions {
    /// Find out calls that differ between ranks, and tell all ranks. Costs one short exchange per call.
    bool checks = true;
    /// Use memory that the ranks of a node share, where there is some.
    bool shared_memory = true;
};

namespace detail {

class StateRegistry;

template <class T>
struct Context {
    Context(T t, CommunicatorOptions o) : transport{std::move(t)}, options{o} {
        if (options.shared_memory) board = Board::make(transport);
    }

    T transport;
    CommunicatorOptions options;
    std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>();
    /// Where exchanges take place when all ranks are on one node.
    std::shared_ptr<Board> board;
    /// Where other collectives move data when all ranks are on one node: what the algorithm has made for itself.
    std::shared_ptr<DirectState> direct;
    /// What survives the death of workers, in a job that keeps it.
    std::shared_ptr<StateRegistry> state;
    /// On devices: the communicator of the same ranks for what lies on the host.
    std::shared_ptr<void> host;
    /// What allocate_shared has made.
    std::vector<std::shared_ptr<void>> regions;
    /// Collective calls so far. All ranks make the same calls in the same order, so it names an operation on all.
    std::atomic<unsigned> calls = 0;
    /// Operations of untagged algorithms (see is_tagged), which run one at a time in the order of their calls.
    std::mutex queue_mutex;
    std::vector<const void*> queue;

    Channel<T> next_channel() {
        return Channel<T>{transport, static_cast<int>(calls.fetch_add(1, std::memory_order_relaxed) %
                                                      static_cast<unsigned>(setup_tag))};
    }
    int rank() const { return transport.rank(); }
    int size() const { return transport.size(); }
};

/// A place in the queue of a context, taken when a call is made and left at its end, used or not. `needed` is false for
/// tagged algorithms and for calls that do without the algorithm.
template <Transport T>
class Turn {
public:
    Turn(std::shared_ptr<Context<T>> context, bool needed) : context_{std::move(context)}, has_come_{!needed} {
        if (!needed) return;
        const std::scoped_lock lock{context_->queue_mutex};
        context_->queue.push_back(this);
        needed_ = true;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
        if (!needed_) return;
        const std::scoped_lock lock{context_->queue_mutex};
        auto& queue = context_->queue;
        for (std::size_t i = 0; i < queue.size(); ++i) {
            if (queue[i] != this) continue;
            queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
    }
    bool has_come() {
        if (has_come_) return true;
        const std::scoped_lock lock{context_->queue_mutex};
        return has_come_ = context_->queue.front() == this;
    }

private:
    std::shared_ptr<Context<T>> context_;
    bool has_come_, needed_ = false;
};

}  // namespace detail
}  // namespace hvd
