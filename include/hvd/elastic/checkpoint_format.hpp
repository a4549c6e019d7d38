// What a checkpoint is made of: a header, a directory of the objects, their bytes; and how it is told from a damaged one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/core/serialize.hpp>
#include <hvd/elastic/checked_copy.hpp>
#include <hvd/elastic/saved_state.hpp>

namespace hvd::detail {

/// A whole file in memory.
using CheckpointImage = std::shared_ptr<std::vector<std::byte>>;

/// The first 64 bytes. Directory and data follow, each a multiple of 64 bytes.
struct CheckpointHeader {
    std::uint64_t magic;
    std::uint32_t version, workers;
    std::uint64_t sequence, directory_bytes, data_bytes, directory_sum, data_sum, header_sum;

    static constexpr std::uint64_t right_magic = 0x6b636568632d7668;
    static constexpr std::uint32_t right_version = 1;
    static constexpr std::size_t room = 64;

    std::uint64_t sum() const {
        std::uint64_t s = magic;
        for (const std::uint64_t word : {std::uint64_t{version}, std::uint64_t{workers}, sequence, directory_bytes,
                                         data_bytes, directory_sum, data_sum})
            s = Checksum::mix(s, word);
        return s;
    }
};
static_assert(sizeof(CheckpointHeader) == CheckpointHeader::room);

struct CheckpointEntry {
    std::string name;
    std::uint32_t kind = 0;
    std::int32_t rank = 0;  // of PerRank: whose
    std::uint64_t bytes = 0;

    template <class Archive>
    void serialize(Archive& a) {
        a(name, kind, rank, bytes);
    }
};

/// Gathers small pieces, sums them, and passes them on in large ones.
template <class Write>
class CheckpointWriter {
public:
    CheckpointWriter(Write& write, std::size_t at) : write_{write}, at_{at} { buffer_.reserve(most); }

    void put(const std::byte* from, std::size_t bytes) {
        while (bytes > 0) {
            const std::size_t n = bytes < most - buffer_.size() ? bytes : most - buffer_.size();
            buffer_.insert(buffer_.end(), from, from + n);
            from += n;
            bytes -= n;
            if (buffer_.size() == most) flush();
        }
    }
    /// Pads to a whole block.
    void end_piece() { buffer_.resize(Checksum::rounded(buffer_.size())); }
    /// Returns the sum of all. `at` is behind the last byte then.
    std::uint64_t end() {
        end_piece();
        flush();
        return sum_.value();
    }
    std::size_t at() const { return at_; }

private:
    static constexpr std::size_t most = std::size_t{1} << 20;

    void flush() {
        sum_.copy(nullptr, buffer_.data(), buffer_.size());
        write_(buffer_.data(), buffer_.size(), at_);
        at_ += buffer_.size();
        buffer_.clear();
    }

    Write& write_;
    std::size_t at_;
    std::vector<std::byte> buffer_;
    Checksum sum_;
};

/// Calls `write(bytes, count, offset)`, last for the header, so that one that is cut short has none.
template <class Write>
void write_checkpoint_image(const SavedState& state, Write write) {
    std::vector<CheckpointEntry> entries;
    for (const SavedEntry& e : state.entries)
        entries.push_back({e.name, static_cast<std::uint32_t>(e.kind), e.rank, e.bytes});
    const std::vector<std::byte> directory = to_bytes(entries);

    CheckpointHeader header{};
    header.magic = CheckpointHeader::right_magic;
    header.version = CheckpointHeader::right_version;
    header.workers = static_cast<std::uint32_t>(state.workers);
    header.sequence = state.sequence;
    header.directory_bytes = Checksum::rounded(directory.size());
    CheckpointWriter first{write, CheckpointHeader::room};
    first.put(directory.data(), directory.size());
    header.directory_sum = first.end();
    CheckpointWriter second{write, first.at()};
    for (const SavedEntry& entry : state.entries) {
        for (const SavedPiece& piece : entry.pieces) second.put(piece.data, piece.bytes);
        second.end_piece();
    }
    header.data_sum = second.end();
    header.data_bytes = second.at() - first.at();
    header.header_sum = header.sum();
    write(reinterpret_cast<const std::byte*>(&header), sizeof header, std::size_t{0});
}

/// `there` bytes of the header could be read, and the file has `size`. Throws DataError. Nothing is allocated before this.
inline void check_checkpoint_header(const CheckpointHeader& header, std::size_t there, std::size_t size,
                                    const std::string& name) {
    const auto refuse = [&name](std::size_t offset, const std::string& why) {
        throw DataError{name, offset, why + "; restore the checkpoint from a copy, or remove it"};
    };
    if (size == 0) refuse(0, "the checkpoint is empty");
    if (there >= sizeof header.magic && header.magic != CheckpointHeader::right_magic)
        refuse(0, "this is no checkpoint of hvd");
    if (there < CheckpointHeader::room) refuse(there, "the checkpoint ends within its header");
    if (header.version != CheckpointHeader::right_version)
        refuse(offsetof(CheckpointHeader, version), "the checkpoint has version " + std::to_string(header.version) +
                                                        " and this hvd reads " +
                                                        std::to_string(CheckpointHeader::right_version));
    if (header.header_sum != header.sum())
        refuse(offsetof(CheckpointHeader, header_sum), "the header of the checkpoint is damaged");
    const std::size_t room = size - CheckpointHeader::room;
    if (header.directory_bytes > room || header.data_bytes > room - header.directory_bytes)
        refuse(size, "the checkpoint is cut short");
    if (header.data_bytes != room - header.directory_bytes)
        refuse(size, "the checkpoint is longer than its header says");
    if (header.directory_bytes % 64 != 0 || header.data_bytes % 64 != 0 || header.workers > 1u << 30)
        refuse(offsetof(CheckpointHeader, directory_bytes), "the header of the checkpoint makes no sense");
}

inline CheckpointHeader checkpoint_header(const std::vector<std::byte>& image) {
    CheckpointHeader header{};
    std::memcpy(&header, image.data(), sizeof header);
    return header;
}

/// The objects in an image. Throws DataError when its directory makes no sense.
inline SavedState open_checkpoint(const CheckpointImage& image, const std::string& name) {
    const CheckpointHeader header = checkpoint_header(*image);
    const auto refuse = [&name] {
        throw DataError{
            name, CheckpointHeader::room,
            "the directory of the checkpoint makes no sense; restore the checkpoint from a copy, or remove it"};
    };
    SavedState state;
    state.sequence = header.sequence;
    state.workers = static_cast<int>(header.workers);
    std::vector<CheckpointEntry> entries;
    try {
        from_bytes({image->data() + CheckpointHeader::room, static_cast<std::size_t>(header.directory_bytes)}, entries);
    } catch (const UsageError&) {
        refuse();
    }
    const auto directory_bytes = static_cast<std::size_t>(header.directory_bytes);
    std::size_t at = CheckpointHeader::room + directory_bytes, left = static_cast<std::size_t>(header.data_bytes);
    for (const CheckpointEntry& e : entries) {
        if (e.bytes > left || Checksum::rounded(static_cast<std::size_t>(e.bytes)) > left || e.kind > 1) refuse();
        const auto bytes = static_cast<std::size_t>(e.bytes);
        state.entries.push_back({e.name, static_cast<StateKind>(e.kind), bytes, e.rank, {}});
        if (bytes > 0) state.entries.back().pieces.push_back({0, bytes, image->data() + at});
        at += Checksum::rounded(bytes);
        left -= Checksum::rounded(bytes);
    }
    if (left != 0) refuse();
    state.memory.push_back(image);
    return state;
}

/// The bytes are those that were written. Throws DataError.
inline void check_checkpoint_image(const std::vector<std::byte>& image, const std::string& name) {
    const CheckpointHeader header = checkpoint_header(image);
    const auto check = [&](std::size_t at, std::uint64_t bytes, std::uint64_t sum, const char* what) {
        Checksum own;
        own.copy(nullptr, image.data() + at, static_cast<std::size_t>(bytes));
        if (own.value() != sum)
            throw DataError{name, at,
                            std::string{what} + " of the checkpoint is damaged; restore it from a copy, or remove it"};
    };
    check(CheckpointHeader::room, header.directory_bytes, header.directory_sum, "the directory");
    check(CheckpointHeader::room + static_cast<std::size_t>(header.directory_bytes), header.data_bytes, header.data_sum,
          "the data");
}

}  // namespace hvd::detail
