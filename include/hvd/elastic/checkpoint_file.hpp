// A committed state as a file: written beside the old one and renamed, which is kept as FILE.previous; checked when it is read.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hvd/elastic/state_store.hpp>

namespace hvd::detail {

inline std::string previous_checkpoint(const std::string& path) { return path + ".previous"; }

/// What is under `path` is this state or the one before, whenever the machine stops. Throws DataError.
inline void write_checkpoint(const std::string& path, std::uint64_t sequence, const std::vector<StateEntry>& entries,
                             const std::vector<StateChunks>& chunks) {
    const auto fail = [&path](const char* what) {
        throw DataError{path, 0,
                        std::string{"the checkpoint could not be "} + what + ": " + std::strerror(errno) +
                            "; make room in its folder, or name another file"};
    };
    const std::string temporary = path + ".new";
    const int number = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (number < 0) fail("made");
    {
        SlotFile file = SlotFile::adopt(number);
        try {
            write_slot(file, {0, sequence}, 0, 1, 0, 1, entries, chunks);
        } catch (const TransportError& e) {
            throw DataError{path, 0, std::string{"the checkpoint could not be written: "} + e.what()};
        }
        if (::fsync(number) != 0) fail("written");
    }
    fault_point("checkpoint: before it has its name", 0);
    if (::rename(path.c_str(), previous_checkpoint(path).c_str()) != 0 && errno != ENOENT) fail("put by");
    fault_point("checkpoint: between the names", 0);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("given its name");
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        ::fsync(directory);  // file systems without it have nothing to say here
        ::close(directory);
    }
}

/// The state in a file, or nothing when there is no file. Throws DataError when it is damaged.
inline std::optional<SavedState> read_one_checkpoint(const std::string& path) {
    const int number = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (number < 0 && errno == ENOENT) return std::nullopt;
    if (number < 0) throw DataError{path, 0, std::string{"the checkpoint could not be read: "} + std::strerror(errno)};
    const auto file = std::make_shared<SlotFile>(SlotFile::adopt(number));
    const SlotHeader* header = file->size() > SlotHeader::room ? look_at_slot(*file) : nullptr;
    if (header == nullptr || !is_undamaged(*header))
        throw DataError{path, 0, "this is no checkpoint, or a damaged one; restore it from a copy, or remove it"};
    SavedState state;
    state.sequence = header->key.sequence;
    state.workers = 1;
    read_slot(*header, state);
    state.memory.push_back(file);
    return state;
}

/// The newest state there is under `path`: a damaged file is refused with a sentence, and the one before is used. Throws
/// DataError when there is no other. `speaks`: this process says the sentence.
inline std::optional<SavedState> read_checkpoint(const std::string& path, bool speaks) {
    try {
        if (auto state = read_one_checkpoint(path)) return state;
    } catch (const DataError& e) {
        auto state = read_one_checkpoint(previous_checkpoint(path));
        if (!state) throw;
        if (speaks)
            std::fprintf(stderr, "%s; the one before, %s, is used\n", e.what(), previous_checkpoint(path).c_str());
        return state;
    }
    return read_one_checkpoint(previous_checkpoint(path));
}

}  // namespace hvd::detail
