// Board: where the ranks of one node put short messages for all to see, in shared memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <hvd/transport/transport.hpp>

namespace hvd::detail {

/// What the ranks compare about their calls. `signature` says all that must be equal.
struct CallHeader {
    std::uint64_t signature = 0;
    std::uint64_t disagree = 0;
};

/// Notices are numbered; each rank writes one per number into a slot that it uses again `slots` numbers later, when all
/// have said that they have finished with it.
class Board {
public:
    /// The longest payload of a notice, in bytes.
    static constexpr std::size_t room = 4096;

    struct alignas(64) Notice {
        std::atomic<std::uint64_t> number;  // plus one
        CallHeader header;
        alignas(8) std::byte payload[room];
    };

    /// Collective over ranks of one node. Nothing where they cannot share memory.
    template <Transport T>
    static std::shared_ptr<Board> make(T& transport) {
        if constexpr (SharesMemory<T>) {
            if (transport.size() == 1 || transport.topology().nodes() > 1) return nullptr;
            std::string reason;
            auto region = transport.share(
                std::vector<std::size_t>(static_cast<std::size_t>(transport.size()), sizeof(Part)), reason);
            if (region) return std::make_shared<Board>(std::move(region), transport.rank(), transport.size());
        }
        return nullptr;
    }

    Board(std::shared_ptr<SharedRegion> region, int rank, int size)
        : region_{std::move(region)}, rank_{rank}, size_{size} {}

    std::uint64_t next_number() { return next_.fetch_add(1, std::memory_order_relaxed); }

    /// Puts up this rank's notice, unless a rank may still read the one that was there.
    bool write(std::uint64_t number, const CallHeader& header, const std::byte* payload, std::size_t bytes) {
        while (number >= free_below_) {
            std::uint64_t least = ~std::uint64_t{0};
            for (int r = 0; r < size_; ++r) {
                const std::uint64_t finished = part(r).finished.load(std::memory_order_acquire);
                least = finished < least ? finished : least;
            }
            if (least + slots == free_below_) return false;
            free_below_ = least + slots;
        }
        Notice& notice = part(rank_).notices[number % slots];
        notice.header = header;
        if (bytes > 0) std::memcpy(notice.payload, payload, bytes);
        notice.number.store(number + 1, std::memory_order_release);
        return true;
    }

    /// The notice of rank r, or nothing when it is not there yet.
    const Notice* read(int r, std::uint64_t number) const {
        const Notice& notice = part(r).notices[number % slots];
        return notice.number.load(std::memory_order_acquire) == number + 1 ? &notice : nullptr;
    }

    /// This rank has read all notices of this number.
    void finish(std::uint64_t number) {
        if (number - finished_ < 64) finished_ahead_ |= std::uint64_t{1} << (number - finished_);
        while ((finished_ahead_ & 1) != 0) {
            finished_ahead_ >>= 1;
            ++finished_;
        }
        part(rank_).finished.store(finished_, std::memory_order_release);
    }

    int size() const { return size_; }

private:
    static constexpr std::size_t slots = 8;

    struct Part {
        alignas(128) std::atomic<std::uint64_t> finished;
        alignas(128) Notice notices[slots];
    };

    Part& part(int r) const { return *reinterpret_cast<Part*>(region_->part(r)); }

    std::shared_ptr<SharedRegion> region_;
    int rank_, size_;
    std::atomic<std::uint64_t> next_ = 0;
    std::uint64_t free_below_ = slots;  // numbers below this may be written
    std::uint64_t finished_ = 0;        // all numbers below are finished here
    std::uint64_t finished_ahead_ = 0;  // bit i: number finished_ + i is, too
};

}  // namespace hvd::detail
