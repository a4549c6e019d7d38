// Making a SharedRegion among the processes of a transport, all on one node.
#pragma once

#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hvd/transport/channel.hpp>
#include <hvd/transport/shared_region.hpp>

namespace hvd::detail {

/// The tag of messages that set something up; operations use the ones below it.
inline constexpr int setup_tag = 32767;

/// What rank 0 tells the others about the region, or that it could not be made.
struct RegionNotice {
    char name[48] = {};
    std::uint64_t id = 0;
    std::uint64_t failed = 0;
};

/// Collective: part r of the region has `sizes[r]` bytes, all zero. Returns nothing on all ranks when it cannot be had on
/// one, with the reason in `reason` where there is one.
template <class T>
std::shared_ptr<SharedRegion> share_between_processes(T& transport, std::vector<std::size_t> sizes,
                                                      std::string& reason) {
    const Channel<T> channel{transport, setup_tag};
    const int rank = transport.rank(), size = transport.size();
    std::shared_ptr<SharedRegion> region;
    RegionNotice notice;
    const auto attempt = [&](bool creates) {
        try {
            region = std::make_shared<PosixRegion>(sizes, notice.id, notice.name, creates);
        } catch (const TransportError& e) {
            reason = e.what();
        }
    };
    if (rank == 0) {
        notice.id = random_id();
        std::snprintf(notice.name, sizeof notice.name, "/hvd-%ld-%016llx", static_cast<long>(::getpid()),
                      static_cast<unsigned long long>(notice.id));
        attempt(true);
        notice.failed = region ? 0 : 1;
        std::vector<typename T::Message> sends;
        for (int peer = 1; peer < size; ++peer) sends.push_back(channel.send(peer, &notice, sizeof notice));
        for (auto& send : sends) channel.wait(send);
    } else {
        auto message = channel.receive(0, &notice, sizeof notice);
        channel.wait(message);
        if (notice.failed == 0) attempt(false);
        else reason = "hvd: rank 0 could not make shared memory";
    }

    // All tell all whether they have it, and who they are.
    struct Answer {
        std::uint64_t has, worker;
    };
    const Answer own{region ? 1u : 0u, transport.worker()->id()};
    std::vector<Answer> answers(static_cast<std::size_t>(size), own);
    std::vector<typename T::Message> messages;
    for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        messages.push_back(channel.receive(peer, &answers[static_cast<std::size_t>(peer)], sizeof(Answer)));
        messages.push_back(channel.send(peer, &own, sizeof own));
    }
    for (auto& message : messages) channel.wait(message);
    if (rank == 0 && region) ::shm_unlink(notice.name);
    for (const Answer& answer : answers) {
        if (answer.has == 0) return nullptr;
        region->workers.push_back(answer.worker);
    }
    transport.worker()->add_region(region);
    return region;
}

}  // namespace hvd::detail
