// Making a SharedRegion among the processes of a transport, all on one node.
#pragma once

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hvd/transport/channel.hpp>
#include <hvd/transport/shared_region.hpp>

namespace hvd::detail {

/// The tag of messages that set something up; operations use the ones below it.
inline constexpr int setup_tag = 32767;

/// What rank 0 tells the others about the file to be shared; no name: it could not be made.
struct SharedFileNotice {
    char name[64] = {};
    std::uint64_t id = 0;
};

/// Collective: part r of the region has `sizes[r]` bytes, all zero. Returns nothing on all ranks when it cannot be had in this
/// way on one, with the reason in `reason` where there is one.
template <class T>
std::shared_ptr<SharedRegion> share_file(T& transport, const std::vector<std::size_t>& sizes, SharedFile::Kind kind,
                                         std::string& reason) {
    const Channel<T> channel{transport, setup_tag};
    const int rank = transport.rank(), size = transport.size();
    std::optional<SharedFile> file;
    std::shared_ptr<SharedRegion> region;
    SharedFileNotice notice;
    const auto attempt = [&](auto&& get) {
        try {
            get();
        } catch (const TransportError& e) {
            reason = e.what();
        }
    };
    const auto map = [&] { region = std::make_shared<MappedRegion>(sizes, notice.id, *file); };
    if (rank == 0) {
        notice.id = random_id();
        attempt([&] {
            file.emplace(kind, notice.id);
            map();
            std::snprintf(notice.name, sizeof notice.name, "%s", file->name().c_str());
        });
        std::vector<typename T::Message> sends;
        for (int peer = 1; peer < size; ++peer) sends.push_back(channel.send(peer, &notice, sizeof notice));
        for (auto& send : sends) channel.wait(send);
    } else {
        auto message = channel.receive(0, &notice, sizeof notice);
        channel.wait(message);
        if (notice.name[0] == '\0') reason = "hvd: rank 0 could not make shared memory";
        else
            attempt([&] {
                file.emplace(kind, std::string{notice.name});
                map();
            });
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
    for (const Answer& answer : answers) {
        if (answer.has == 0) return nullptr;
        region->workers.push_back(answer.worker);
    }
    transport.worker()->add_region(region);
    return region;
}

/// The same, in the first way that works on all ranks.
template <class T>
std::shared_ptr<SharedRegion> share_between_processes(T& transport, const std::vector<std::size_t>& sizes,
                                                      std::string& reason) {
    for (const auto kind : {SharedFile::Kind::Unnamed, SharedFile::Kind::Named})
        if (auto region = share_file(transport, sizes, kind, reason)) return region;
    return nullptr;
}

}  // namespace hvd::detail
