// Local: ranks are threads of one process; a message is one copy, made by whichever side comes second.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hvd/transport/transport.hpp>

namespace hvd {
namespace detail {

/// What the threads of one job share: whether one of them has failed, and of what.
class LocalJob {
public:
    bool has_failed() const { return failed_.load(std::memory_order_acquire); }

    /// The first failure is the cause; later ones are its consequences.
    void fail(int rank, std::string cause) {
        const std::scoped_lock lock{mutex_};
        if (has_failed()) return;
        rank_ = rank;
        cause_ = std::move(cause);
        failed_.store(true, std::memory_order_release);
    }

    /// A worker of an elastic job is gone: the others leave the body by WorldChanged, and all enter it again.
    void lose(int rank, std::string cause) {
        const std::scoped_lock lock{mutex_};
        losses_.push_back({rank, std::move(cause)});
        changed_.store(true, std::memory_order_release);
    }
    bool has_changed() const { return changed_.load(std::memory_order_acquire); }
    struct Loss {
        int rank;
        std::string cause;
    };
    /// After the end of all workers.
    const std::vector<Loss>& losses() const { return losses_; }
    std::string change_text() {
        const std::scoped_lock lock{mutex_};
        return "hvd: rank " + std::to_string(losses_.front().rank) + " " + losses_.front().cause +
               ", so the workers enter the body again";
    }
    /// Of a failure or of a change, whichever there was.
    std::string end_text() { return has_failed() ? failure_text() : change_text(); }

    std::string failure_text() const {
        return "hvd: rank " + std::to_string(rank_) + " failed, so this job ends: " + cause_;
    }
    [[noreturn]] void throw_failure() const { throw PeerFailure{failure_text(), rank_}; }

private:
    std::atomic<bool> failed_ = false, changed_ = false;
    std::vector<Loss> losses_;
    std::mutex mutex_;
    int rank_ = -1;
    std::string cause_;
};

class LocalWorker final : public Worker {
public:
    explicit LocalWorker(std::shared_ptr<LocalJob> job) : job_{std::move(job)} {}
    void check() override {
        if (job_->has_failed()) job_->throw_failure();
        if (job_->has_changed()) throw WorldChanged{job_->change_text()};
    }
    LocalJob& job() { return *job_; }

private:
    std::shared_ptr<LocalJob> job_;
};

/// One side of a message that waits for the other side.
struct Parcel {
    int tag = 0;
    std::byte* room = nullptr;        // of a receive
    const std::byte* data = nullptr;  // of a send
    std::size_t bytes = 0;
    std::atomic<bool> done = false;
    bool too_long = false;
    std::array<std::byte, 256> copy;  // of a short message, so that its sender need not wait
};

/// The parcels from one rank to another, in order. Per tag, at most one of the lists has any.
struct LocalLane {
    std::mutex mutex;
    std::vector<std::shared_ptr<Parcel>> sends, receives;

    static std::shared_ptr<Parcel> take(std::vector<std::shared_ptr<Parcel>>& list, int tag) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (list[i]->tag != tag) continue;
            auto parcel = std::move(list[i]);
            list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
            return parcel;
        }
        return nullptr;
    }

    static bool remove(std::vector<std::shared_ptr<Parcel>>& list, const Parcel* parcel) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (list[i].get() != parcel) continue;
            list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
            return true;
        }
        return false;
    }
};

/// What the ranks of one communicator share.
class LocalGroup {
public:
    explicit LocalGroup(int size)
        : size_{size}, lanes_{new LocalLane[static_cast<std::size_t>(size) * static_cast<std::size_t>(size)]} {}

    int size() const { return size_; }
    LocalLane& lane(int from, int to) { return lanes_[static_cast<std::size_t>(from * size_ + to)]; }

    /// The group that the members of a new communicator meet in. `rank` is the caller, which may be ahead of others and
    /// already ask for the next group of the same members.
    template <class Group = LocalGroup>
    std::shared_ptr<Group> meet(int rank, int id, std::span<const int> members) {
        const std::scoped_lock lock{mutex_};
        return join(groups_, rank, id, {members.begin(), members.end()},
                    [&] { return std::make_shared<Group>(static_cast<int>(members.size())); });
    }

    /// The memory that all ranks ask for in the same order.
    template <class Region = HeapRegion>
    std::shared_ptr<SharedRegion> share(int rank, std::vector<std::size_t> sizes) {
        const std::scoped_lock lock{mutex_};
        std::vector<int> all;
        for (int r = 0; r < size_; ++r) all.push_back(r);
        return join(regions_, rank, 0, all, [&] { return std::make_shared<Region>(std::move(sizes), random_id()); });
    }

private:
    /// Something that the members of a group share: the first to come makes it, the last takes it off the list.
    template <class X>
    struct Meeting {
        int id;
        std::vector<int> members;
        std::shared_ptr<X> shared;
        std::vector<int> come{};

        bool expects(int rank) const {
            for (int r : come)
                if (r == rank) return false;
            return true;
        }
    };

    template <class X, class Make>
    static std::shared_ptr<X> join(std::vector<Meeting<X>>& meetings, int rank, int id, const std::vector<int>& members,
                                   Make make) {
        std::size_t i = 0;
        while (i < meetings.size() &&
               !(meetings[i].id == id && meetings[i].members == members && meetings[i].expects(rank)))
            ++i;
        if (i == meetings.size()) meetings.push_back({id, members, make()});
        Meeting<X>& m = meetings[i];
        const auto shared = m.shared;
        m.come.push_back(rank);
        if (m.come.size() == members.size()) meetings.erase(meetings.begin() + static_cast<std::ptrdiff_t>(i));
        return shared;
    }

    int size_;
    std::unique_ptr<LocalLane[]> lanes_;
    std::mutex mutex_;
    std::vector<Meeting<LocalGroup>> groups_;
    std::vector<Meeting<SharedRegion>> regions_;
};

/// A message under way; withdraws its parcel when it is abandoned.
class LocalMessage {
public:
    LocalMessage() = default;
    LocalMessage(LocalLane& lane, std::shared_ptr<Parcel> parcel) : lane_{&lane}, parcel_{std::move(parcel)} {}
    LocalMessage(LocalMessage&& other) noexcept : lane_{other.lane_}, parcel_{std::move(other.parcel_)} {}
    LocalMessage& operator=(LocalMessage&& other) noexcept {
        std::swap(lane_, other.lane_);
        std::swap(parcel_, other.parcel_);
        return *this;
    }
    ~LocalMessage() {
        if (!parcel_ || parcel_->done.load(std::memory_order_acquire)) return;
        {
            const std::scoped_lock lock{lane_->mutex};
            if (LocalLane::remove(lane_->sends, parcel_.get()) || LocalLane::remove(lane_->receives, parcel_.get()))
                return;
        }
        // The other side has taken it and is copying; that ends soon, and the memory must last until then.
        while (!parcel_->done.load(std::memory_order_acquire)) ::sched_yield();
    }

    bool test() {
        if (!parcel_) return true;
        if (!parcel_->done.load(std::memory_order_acquire)) return false;
        if (parcel_->too_long) throw TransportError{too_long_text};
        parcel_.reset();
        return true;
    }

    static constexpr const char* too_long_text =
        "hvd: a message is longer than the room for it, so the ranks disagree on a length; turn the checks on to see where";

private:
    LocalLane* lane_ = nullptr;
    std::shared_ptr<Parcel> parcel_;
};

}  // namespace detail

/// Transport between threads of one process. `hvd::launch<hvd::Local>` makes it. Used by its name `hvd::Local`; a template,
/// so that only who launches on it pays for compiling it.
template <class Group>
class BasicLocal {
public:
    static constexpr std::string_view name = "local";
    using memory_space = HostMemory;
    using Message = detail::LocalMessage;
    /// Any rank can read any other's memory by its address.
    static constexpr bool has_common_addresses = true;

    BasicLocal(std::shared_ptr<Group> group, std::shared_ptr<detail::LocalWorker> worker, int rank, Topology topology)
        : group_{std::move(group)}, worker_{std::move(worker)}, rank_{rank}, topology_{std::move(topology)} {}

    int rank() const { return rank_; }
    int size() const { return group_->size(); }
    const Topology& topology() const { return topology_; }
    /// Place among the ranks of this machine, whatever nodes are pretended.
    int machine_rank() const { return machine_rank_; }
    std::shared_ptr<detail::Worker> worker() const { return worker_; }

    Message send(int peer, int tag, const std::byte* data, std::size_t bytes) {
        detail::LocalLane& lane = group_->lane(rank_, peer);
        std::shared_ptr<detail::Parcel> receive;
        {
            const std::scoped_lock lock{lane.mutex};
            receive = detail::LocalLane::take(lane.receives, tag);
            if (!receive) {
                auto parcel = std::make_shared<detail::Parcel>();
                parcel->tag = tag;
                parcel->data = data;
                parcel->bytes = bytes;
                const bool is_short = bytes <= parcel->copy.size();
                if (is_short) {
                    if (bytes > 0) std::memcpy(parcel->copy.data(), data, bytes);
                    parcel->data = parcel->copy.data();
                }
                lane.sends.push_back(parcel);
                return is_short ? Message{} : Message{lane, std::move(parcel)};
            }
        }
        deliver(data, bytes, receive->room, *receive);
        return {};
    }

    Message receive(int peer, int tag, std::byte* data, std::size_t bytes) {
        detail::LocalLane& lane = group_->lane(peer, rank_);
        std::shared_ptr<detail::Parcel> sent;
        {
            const std::scoped_lock lock{lane.mutex};
            sent = detail::LocalLane::take(lane.sends, tag);
            if (!sent) {
                auto parcel = std::make_shared<detail::Parcel>();
                parcel->tag = tag;
                parcel->room = data;
                parcel->bytes = bytes;
                lane.receives.push_back(parcel);
                return Message{lane, std::move(parcel)};
            }
        }
        if (sent->bytes > bytes) {
            sent->too_long = true;
            sent->done.store(true, std::memory_order_release);
            throw TransportError{Message::too_long_text};
        }
        if (sent->bytes > 0) std::memcpy(data, sent->data, sent->bytes);
        sent->done.store(true, std::memory_order_release);
        return {};
    }

    bool test(Message& message) { return message.test(); }

    /// Collective: memory in common, part r of `sizes[r]` bytes.
    std::shared_ptr<detail::SharedRegion> share(std::vector<std::size_t> sizes, std::string&) {
        return group_->share(rank_, std::move(sizes));
    }

    BasicLocal subgroup(std::span<const int> members, int id) {
        int rank = 0;
        while (members[static_cast<std::size_t>(rank)] != rank_) ++rank;
        BasicLocal result{group_->meet(rank_, id, members), worker_, rank, topology_.restricted_to(members, rank)};
        result.machine_rank_ = machine_rank_;
        return result;
    }

private:
    static void deliver(const std::byte* data, std::size_t bytes, std::byte* room, detail::Parcel& receive) {
        receive.too_long = bytes > receive.bytes;
        if (!receive.too_long && bytes > 0) std::memcpy(room, data, bytes);
        const bool too_long = receive.too_long;
        receive.done.store(true, std::memory_order_release);
        if (too_long) throw TransportError{Message::too_long_text};
    }

    std::shared_ptr<Group> group_;
    std::shared_ptr<detail::LocalWorker> worker_;
    int rank_, machine_rank_ = rank_;
    Topology topology_;
};

using Local = BasicLocal<detail::LocalGroup>;

}  // namespace hvd
