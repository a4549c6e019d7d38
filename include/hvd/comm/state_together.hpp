// The state of a job to and from a file, by all ranks together: rank 0 does it, and the others learn how it went.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/gather.hpp>
#include <hvd/comm/object.hpp>
#include <hvd/elastic/checkpoint_file.hpp>

namespace hvd::detail {

/// What became of the file on rank 0. `reason` is empty when all went well.
struct FileOutcome {
    std::string file, reason;
    std::uint64_t offset = 0;
    std::uint8_t has_image = 0;

    template <class Archive>
    void serialize(Archive& a) {
        a(file, reason, offset, has_image);
    }
};

/// Collective: `f()` runs on rank 0; a DataError of its comes to all ranks.
template <class T, class A, class F>
FileOutcome on_first_rank(const Communicator<T, A>& world, const std::string& path, F&& f) {
    FileOutcome outcome;
    if (world.rank() == 0) {
        try {
            outcome.has_image = f() ? 1 : 0;
        } catch (const DataError& e) {
            outcome.file = e.file();
            outcome.offset = e.offset();
            outcome.reason = e.reason();
        } catch (const std::exception& e) {
            outcome.file = path;
            outcome.reason = std::string{"the checkpoint could not be handled: "} + e.what();
        }
    }
    broadcast_object(world, outcome, 0);
    if (!outcome.reason.empty())
        throw DataError{outcome.file, static_cast<std::size_t>(outcome.offset), outcome.reason};
    return outcome;
}

/// Collective. The file need be there for rank 0 only. Throws DataError on all ranks.
template <class T, class A>
std::optional<SavedState> read_together(const Communicator<T, A>& world, CheckpointFile& file) {
    CheckpointImage image;
    const FileOutcome outcome = on_first_rank(world, file.path(), [&] {
        image = file.read().value_or(nullptr);
        if (image) open_checkpoint(image, file.path());  // throws here or nowhere
        return image != nullptr;
    });
    if (outcome.has_image == 0) return std::nullopt;
    std::uint64_t bytes = image ? image->size() : 0;
    broadcast(world, std::span<std::uint64_t>{&bytes, 1}, 0);
    if (!image) image = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
    broadcast(world, std::span<unsigned char>{reinterpret_cast<unsigned char*>(image->data()), image->size()}, 0);
    return open_checkpoint(image, file.path());
}

/// The PerRank objects of one rank, on their way to rank 0.
struct RankObject {
    std::string name;
    std::int32_t rank = 0;
    std::vector<unsigned char> bytes;

    template <class Archive>
    void serialize(Archive& a) {
        a(name, rank, bytes);
    }
};

/// Collective: writes what rank 0 has, and the PerRank objects of all. Throws DataError on all ranks.
template <class T, class A>
void write_together(const Communicator<T, A>& world, CheckpointFile& file, SavedState own) {
    std::vector<RankObject> objects;
    for (const SavedEntry& entry : own.entries) {
        if (entry.kind != StateKind::PerRank) continue;
        RankObject& object = objects.emplace_back(RankObject{entry.name, world.rank(), {}});
        object.bytes.resize(entry.bytes);
        SavedReader{entry.name, entry.pieces, entry.bytes}.take(object.bytes.data(), entry.bytes);
    }
    std::vector<std::byte> written;
    if (world.rank() != 0) written = to_bytes(objects);
    std::vector<unsigned char> bytes(written.size()), all;
    if (!written.empty()) std::memcpy(bytes.data(), written.data(), written.size());
    gather(world, bytes, all, 0);
    const auto kept = std::make_shared<std::vector<std::vector<RankObject>>>();
    ByteReader reader{std::as_bytes(std::span{all})};
    for (int r = 1; world.rank() == 0 && r < world.size(); ++r) reader(kept->emplace_back());
    for (const std::vector<RankObject>& of_rank : *kept)
        for (const RankObject& object : of_rank) {
            SavedEntry& entry = own.entries.emplace_back(
                SavedEntry{object.name, StateKind::PerRank, object.bytes.size(), object.rank, {}});
            entry.pieces.push_back({0, object.bytes.size(), reinterpret_cast<const std::byte*>(object.bytes.data())});
        }
    own.memory.push_back(kept);
    own.workers = world.size();
    on_first_rank(world, file.path(), [&] {
        file.write(own);
        return false;
    });
}

}  // namespace hvd::detail
