// StateSlot: a rank's share of one committed state, in memory that outlives the rank. A share is whole, or it is none: its mark
// goes first and comes last, and its checksum covers the rest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <hvd/core/serialize.hpp>
#include <hvd/elastic/checked_copy.hpp>
#include <hvd/elastic/fault_point.hpp>
#include <hvd/elastic/saved_state.hpp>
#include <hvd/elastic/slot_file.hpp>

namespace hvd::detail {

/// The commit that a share belongs to. Jobs that start again from commit 7 all make a commit 8: `life` tells them apart.
struct CommitKey {
    std::uint64_t life = 0, sequence = 0;
    friend bool operator==(const CommitKey&, const CommitKey&) = default;
};

/// At the beginning of a slot. Then comes the directory, then the bytes.
struct SlotHeader {
    std::atomic<std::uint64_t> mark;
    CommitKey key;
    std::uint32_t rank, workers;  // of the job
    std::uint32_t part, parts;    // of the replicated bytes, which the ranks of a node split
    std::uint64_t directory_bytes, data_bytes, checksum;

    static constexpr std::uint64_t whole = 0x6876642d73746174;
    static constexpr std::size_t room = 4096;
};
static_assert(sizeof(SlotHeader) <= SlotHeader::room);

/// `part` of `parts` equal parts of `bytes`; nothing of no parts.
struct ByteRange {
    std::size_t begin, end;
};
constexpr ByteRange part_of(std::size_t bytes, std::size_t part, std::size_t parts) {
    if (parts == 0) return {0, 0};
    const std::size_t each = bytes / parts, extra = bytes % parts;
    const std::size_t begin = part * each + (part < extra ? part : extra);
    return {begin, begin + each + (part < extra ? 1 : 0)};
}

/// A piece of an entry, and where it lies in the data of a slot.
struct PlacedPiece {
    std::size_t entry, from, bytes, at;
};

/// What a slot holds of these entries, in order; each piece begins at a multiple of 64.
template <class Entries>
std::vector<PlacedPiece> place_pieces(const Entries& entries, std::size_t part, std::size_t parts) {
    std::size_t total = 0;
    for (const auto& entry : entries)
        if (entry.state_kind() == StateKind::Replicated) total += entry.bytes;
    const ByteRange range = part_of(total, part, parts);
    std::vector<PlacedPiece> pieces;
    std::size_t begin = 0, at = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const auto bytes = static_cast<std::size_t>(entries[i].bytes);
        PlacedPiece piece{i, 0, bytes, at};
        if (entries[i].state_kind() == StateKind::Replicated) {
            const std::size_t end = begin + bytes;
            const std::size_t from = range.begin > begin ? range.begin : begin, to = range.end < end ? range.end : end;
            piece.from = from - begin;
            piece.bytes = to > from ? to - from : 0;
            begin = end;
        }
        if (piece.bytes == 0) continue;
        pieces.push_back(piece);
        at += Checksum::rounded(piece.bytes);
    }
    return pieces;
}

inline std::size_t data_bytes_of(const std::vector<PlacedPiece>& pieces) {
    return pieces.empty() ? 0 : pieces.back().at + Checksum::rounded(pieces.back().bytes);
}

inline std::uint64_t header_sum(const SlotHeader& h) {
    std::uint64_t sum = 0;
    for (const std::uint64_t word : {h.key.life, h.key.sequence, std::uint64_t{h.rank}, std::uint64_t{h.workers},
                                     std::uint64_t{h.part}, std::uint64_t{h.parts}, h.directory_bytes, h.data_bytes})
        sum = Checksum::mix(sum, word);
    return sum;
}

/// Writes a share. `chunks[i]` are the bytes of entry i.
inline void write_slot(SlotFile& file, CommitKey key, int rank, int workers, std::size_t part, std::size_t parts,
                       const std::vector<StateEntry>& entries, const std::vector<StateChunks>& chunks) {
    const std::vector<std::byte> directory = to_bytes(entries);
    const std::vector<PlacedPiece> pieces = place_pieces(entries, part, parts);
    const std::size_t data_begin = SlotHeader::room + Checksum::rounded(directory.size()),
                      data_bytes = data_bytes_of(pieces);
    std::byte* base = file.reserve(data_begin + data_bytes);
    auto& header = *reinterpret_cast<SlotHeader*>(base);
    header.mark.store(0, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    fault_point("commit: the slot is open", rank);

    header.key = key;
    header.rank = static_cast<std::uint32_t>(rank);
    header.workers = static_cast<std::uint32_t>(workers);
    header.part = static_cast<std::uint32_t>(part);
    header.parts = static_cast<std::uint32_t>(parts);
    header.directory_bytes = directory.size();
    header.data_bytes = data_bytes;
    CheckedWriter writer{base + SlotHeader::room};
    writer.put(directory.data(), directory.size());
    writer.end_piece();
    for (std::size_t p = 0; p < pieces.size(); ++p) {
        if (p == pieces.size() / 2) fault_point("commit: the slot is half written", rank);
        std::size_t skip = pieces[p].from, left = pieces[p].bytes;
        for (const auto chunk : chunks[pieces[p].entry].chunks()) {
            if (left == 0) break;
            if (skip >= chunk.size()) {
                skip -= chunk.size();
                continue;
            }
            const std::size_t n = chunk.size() - skip < left ? chunk.size() - skip : left;
            writer.put(chunk.data() + skip, n);
            left -= n;
            skip = 0;
        }
        writer.end_piece();
    }
    header.checksum = Checksum::mix(writer.sum(), header_sum(header));
    fault_point("commit: the slot is not marked yet", rank);
    header.mark.store(SlotHeader::whole, std::memory_order_release);
    fault_point("commit: the slot is whole", rank);
}

/// What there is in a slot: the header of a whole share, or nothing. Looks no further than the mark and the bounds.
inline const SlotHeader* look_at_slot(SlotFile& file) {
    const std::byte* base = file.map();
    if (base == nullptr) return nullptr;
    const auto* header = reinterpret_cast<const SlotHeader*>(base);
    if (header->mark.load(std::memory_order_acquire) != SlotHeader::whole) return nullptr;
    const std::size_t room = file.mapped() - SlotHeader::room;
    if (header->directory_bytes > room || header->data_bytes > room - Checksum::rounded(header->directory_bytes))
        return nullptr;
    return header;
}

/// The bytes of a share are those that were written.
inline bool is_undamaged(const SlotHeader& header) {
    Checksum sum;
    sum.copy(nullptr, reinterpret_cast<const std::byte*>(&header) + SlotHeader::room,
             Checksum::rounded(header.directory_bytes) + header.data_bytes);
    return header.checksum == Checksum::mix(sum.value(), header_sum(header));
}

/// Adds what a share holds to a state.
inline void read_slot(const SlotHeader& header, SavedState& state) {
    const std::byte* base = reinterpret_cast<const std::byte*>(&header) + SlotHeader::room;
    std::vector<StateEntry> entries;
    from_bytes({base, static_cast<std::size_t>(header.directory_bytes)}, entries);
    base += Checksum::rounded(header.directory_bytes);
    const auto rank = static_cast<int>(header.rank);
    for (const StateEntry& entry : entries)
        if (entry.state_kind() == StateKind::PerRank || state.find(entry.name, StateKind::Replicated, rank) == nullptr)
            state.entries.push_back({entry.name, entry.state_kind(), static_cast<std::size_t>(entry.bytes), rank, {}});
    for (const PlacedPiece& piece : place_pieces(entries, header.part, header.parts)) {
        const StateEntry& entry = entries[piece.entry];
        auto* saved = const_cast<SavedEntry*>(state.find(entry.name, entry.state_kind(), rank));
        saved->pieces.push_back({piece.from, piece.bytes, base + piece.at});
    }
}

}  // namespace hvd::detail
