// Notices: how the end of an engine on one rank reaches the others, whatever they are doing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/context.hpp>

namespace hvd::detail {

/// "I give up, and so must you", or "my engine is gone".
struct EngineNotice {
    enum : std::uint64_t { Failure, Closed };
    std::uint64_t kind = Failure;
    std::uint64_t rank = 0;
    std::uint64_t rounds = 0;    // in which the sender took part
    std::uint64_t is_stall = 0;  // a failure: StallError on all ranks; else TransportError
    char text[480] = {};
};

/// The receives of an engine that is gone, kept until its neighbours are gone, too: what they still send must find a place.
template <Transport T>
class NoticeLinks final : public Operation {
public:
    /// Ranks at distance 1, 2, 4, ... in both directions; among them are all that a rank exchanges messages with.
    explicit NoticeLinks(std::shared_ptr<Context<T>> context)
        : context_{std::move(context)}, channel_{context_->next_channel()} {
        const int p = channel_.size();
        for (int distance = 1; distance < p; distance *= 2) {
            add((channel_.rank() + distance) % p);
            add((channel_.rank() - distance + p) % p);
        }
    }

    void send(const EngineNotice& notice) {
        for (auto& link : links_) {
            auto outgoing = std::make_unique<Outgoing>();
            outgoing->notice = notice;
            outgoing->message = channel_.send(link->peer, &outgoing->notice, sizeof notice);
            outgoing_.push_back(std::move(outgoing));
        }
    }

    bool receive(EngineNotice& notice) {
        for (auto& link : links_) {
            if (link->is_closed || !channel_.test(link->message)) continue;
            notice = link->incoming;
            if (notice.kind == EngineNotice::Closed) link->is_closed = true;  // the last that it sends
            else listen(*link);
            return true;
        }
        return false;
    }

    /// After this rank's own end: true when all neighbours have ended and everything is delivered.
    bool advance() override {
        EngineNotice ignored;
        while (receive(ignored)) {
        }
        bool all = true;
        for (auto& link : links_) all = all && link->is_closed;
        for (auto& outgoing : outgoing_) all = channel_.test(outgoing->message) && all;
        return all;
    }

private:
    struct Link {
        int peer;
        EngineNotice incoming{};
        typename T::Message message{};
        bool is_closed = false;
    };
    struct Outgoing {
        EngineNotice notice;
        typename T::Message message;
    };

    void add(int peer) {
        for (const auto& link : links_)
            if (link->peer == peer) return;
        links_.push_back(std::make_unique<Link>());
        links_.back()->peer = peer;
        listen(*links_.back());
    }
    void listen(Link& link) { link.message = channel_.receive(link.peer, &link.incoming, sizeof link.incoming); }

    std::shared_ptr<Context<T>> context_;
    Channel<T> channel_;
    std::vector<std::unique_ptr<Link>> links_;
    std::vector<std::unique_ptr<Outgoing>> outgoing_;
};

/// On one node a rank writes its notice where all see it; between nodes it goes to the neighbours, and a failure is passed
/// on by whoever hears it first.
template <Transport T>
class NoticeBoard {
public:
    explicit NoticeBoard(const std::shared_ptr<Context<T>>& context) : context_{context} {
        if (context->size() == 1) return;
        if constexpr (SharesMemory<T>) {
            std::string reason;
            if (context->board)
                region_ = context->transport.share(
                    std::vector<std::size_t>(static_cast<std::size_t>(context->size()), sizeof(Posted)), reason);
        }
        if (!region_) links_ = std::make_shared<NoticeLinks<T>>(context);
        seen_.resize(static_cast<std::size_t>(context->size()));
    }

    void send(const EngineNotice& notice) {
        if (region_) {
            Posted& own = posted(context_->rank());
            const std::size_t at = notice.kind;
            if (own.is_there[at].load(std::memory_order_relaxed) != 0) return;
            own.notice[at] = notice;
            own.is_there[at].store(1, std::memory_order_release);
        } else if (links_) {
            links_->send(notice);
        }
    }

    /// A notice of another rank, each once.
    bool receive(EngineNotice& notice) {
        if (!region_) return links_ && links_->receive(notice);
        // Ends first: the failure for which a rank has ended is there by now, and goes before.
        const int closed = next_of(EngineNotice::Closed), failed = next_of(EngineNotice::Failure);
        const std::size_t kind = failed >= 0 ? EngineNotice::Failure : EngineNotice::Closed;
        const int r = failed >= 0 ? failed : closed;
        if (r < 0) return false;
        seen_[static_cast<std::size_t>(r)][kind] = true;
        notice = posted(r).notice[kind];
        return true;
    }

    /// Notes for the others that this rank has submitted a tensor, by the hash of its name.
    void submitted(std::uint64_t name) {
        if (region_) posted(context_->rank()).last.store(name, std::memory_order_relaxed);
    }
    /// What rank `r` has submitted last; 0: nothing yet, or it cannot be seen from here.
    std::uint64_t last_submitted(int r) const { return region_ ? posted(r).last.load(std::memory_order_relaxed) : 0; }

    bool passes_on() const { return links_ != nullptr; }

    /// The end, after the last notice: what neighbours still send is awaited by the worker.
    void close() {
        if (links_) context_->transport.worker()->add(std::move(links_));
        links_.reset();
    }

private:
    struct Posted {
        std::atomic<std::uint64_t> last;
        std::atomic<std::uint64_t> is_there[2];  // by kind
        EngineNotice notice[2];
    };

    /// The first other rank that has posted one that is not seen yet, or -1.
    int next_of(std::size_t kind) const {
        for (int r = 0; r < context_->size(); ++r)
            if (r != context_->rank() && !seen_[static_cast<std::size_t>(r)][kind] &&
                posted(r).is_there[kind].load(std::memory_order_acquire) != 0)
                return r;
        return -1;
    }

    Posted& posted(int r) const { return *reinterpret_cast<Posted*>(region_->part(r)); }

    std::shared_ptr<Context<T>> context_;
    std::shared_ptr<SharedRegion> region_;
    std::shared_ptr<NoticeLinks<T>> links_;
    std::vector<std::array<bool, 2>> seen_;
};

}  // namespace hvd::detail
