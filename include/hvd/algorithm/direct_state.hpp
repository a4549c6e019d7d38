// What the ranks of a node share for Direct: counters that say how far each has come, and room to pass private data on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <hvd/algorithm/algorithm.hpp>
#include <hvd/algorithm/direct_counters.hpp>
#include <hvd/transport/transport.hpp>

namespace hvd::detail {

/// Kept by one rank for one communicator.
struct DirectState {
    static constexpr std::size_t page = 4096;

    std::shared_ptr<SharedRegion> region;
    std::shared_ptr<Worker> worker;
    int rank = 0, size = 1;
    std::size_t slot_bytes = 0, slots = 0;
    bool common_addresses = false;
    std::uint64_t operations = 0, blocks = 0;  // so far
    ScratchState scratch{};                    // for messages, when there is no region
    unsigned slow_blocks = 0;                  // see DirectPace
    void (*pause)() = nullptr;                 // for tests: called in every phase

    DirectCounters& counters(int r) const { return *reinterpret_cast<DirectCounters*>(region->part(r)); }
    std::byte* slot(int r, std::uint64_t block) const {
        return region->part(r) + page + static_cast<std::size_t>(block % slots) * slot_bytes;
    }

    void set(DirectCounter counter, std::uint64_t value) const {
        if (pause != nullptr) pause();
        (counters(rank).*counter).value.store(value, std::memory_order_release);
    }

    /// All ranks' `counter` has reached `value`. Looks at the ranks from `from` on, and remembers how far it got.
    bool all_reached(DirectCounter counter, std::uint64_t value, int& from) const {
        for (; from < size; ++from)
            if ((counters(from).*counter).value.load(std::memory_order_acquire) < value) return false;
        from = 0;
        return true;
    }

    /// Tells the others where this rank's tensor is. Returns the number of the operation, the same on all ranks.
    std::uint64_t announce(const void* data, std::size_t bytes, std::size_t most = 0) {
        const std::uint64_t number = ++operations;
        DirectTensor& own = counters(rank).tensors.value[number % 2];
        own = describe(data, bytes);
        own.most = most;
        set(&DirectCounters::announced, number);
        return number;
    }
    const DirectTensor& tensor(int r, std::uint64_t number) const { return counters(r).tensors.value[number % 2]; }
    bool is_open(int r, std::uint64_t number) const { return tensor(r, number).is_open != 0; }

    DirectTensor describe(const void* data, std::size_t bytes) const {
        if (common_addresses) return {0, reinterpret_cast<std::uint64_t>(data), 1, 0};
        const auto found = worker->find_region([&](const SharedRegion& r) { return r.contains(data, bytes); });
        if (!found || !has_all(*found)) return {};
        return {found->id(), static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - found->base()), 1, 0};
    }

    std::byte* address(const DirectTensor& tensor) const {
        if (tensor.region == 0) return reinterpret_cast<std::byte*>(tensor.place);
        const auto found = worker->find_region([&](const SharedRegion& r) { return r.id() == tensor.region; });
        if (!found)
            throw TransportError{
                "hvd: a tensor in shared memory is reduced whose communicator this rank has let go; keep the "
                "communicator or the array on every rank while the memory is in use"};
        return found->base() + tensor.place;
    }

    /// Other ranks' tensors may be touched until `rest()`; throws when one of them was taken away.
    void touch(std::uint64_t number) const {
        counters(rank).busy.value.store(number);  // before the look, in the one order that all ranks see
        for (int r = 0; r < size; ++r) {
            if (counters(r).withdrawn.value.load() < number) continue;
            rest();
            throw TransportError{"hvd: rank " + std::to_string(r) + " left an allreduce before its end"};
        }
    }
    void rest() const { counters(rank).busy.value.store(0, std::memory_order_release); }

    /// This rank's tensor is about to go: returns when nobody touches it any more, and nobody will. Blocks are short, so a
    /// process that stays at one for a second was stopped or killed there, and is not waited for.
    void withdraw(std::uint64_t number) const {
        counters(rank).withdrawn.value.store(number);
        const auto began = Clock::now();
        for (int r = 0; r < size; ++r)
            while (r != rank && counters(r).busy.value.load() == number) {
                if (!common_addresses && Clock::now() - began > std::chrono::seconds{1}) return;
                ::sched_yield();
            }
    }

private:
    bool has_all(const SharedRegion& other) const {
        for (std::uint64_t member : region->workers) {
            bool found = false;
            for (std::uint64_t w : other.workers) found = found || w == member;
            if (!found) return false;
        }
        return true;
    }
};

/// The state of Direct in that of another algorithm, or null.
inline DirectState* direct_state_of(DirectState& state) { return &state; }

/// Collective over ranks of one node. Where there is no memory to share, rank 0 says so and `region` is empty on all.
template <Transport T>
DirectState make_direct_state(T& transport, std::size_t slot_bytes, std::size_t slots) {
    DirectState state;
    state.worker = transport.worker();
    state.rank = transport.rank();
    state.size = transport.size();
    state.slot_bytes = slot_bytes;
    state.slots = slots;
    if (state.size == 2 && slot_bytes >= std::size_t{1} << 20) {  // two ranks wait less for each other: shorter blocks
        state.slot_bytes = slot_bytes / 4 / 64 * 64;
        state.slots = slots * 4;
    }
    state.common_addresses = has_common_addresses<T>();
    if (state.size == 1) return state;
    static_assert(sizeof(DirectCounters) <= DirectState::page);
    const std::size_t own = DirectState::page + (state.common_addresses ? 0 : slots * slot_bytes);
    std::string reason;
    state.region = transport.share(std::vector<std::size_t>(static_cast<std::size_t>(state.size), own), reason);
    if (!state.region && state.rank == 0) std::fprintf(stderr, "%s; Direct sends messages instead\n", reason.c_str());
    return state;  // zero bytes are zero counters
}

}  // namespace hvd::detail
