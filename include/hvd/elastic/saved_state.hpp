// SavedState: one committed state of the job, to be read: from the slots of all ranks, or from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvd/elastic/state_object.hpp>

namespace hvd {

/// Whether a piece of state is the same on all ranks, or each rank has its own.
enum class StateKind : std::uint32_t { Replicated, PerRank };

namespace detail {

/// What the directory of a state says of one object.
struct StateEntry {
    std::string name;
    std::uint32_t kind = 0;
    std::uint64_t bytes = 0;

    StateKind state_kind() const { return static_cast<StateKind>(kind); }
    template <class Archive>
    void serialize(Archive& a) {
        a(name, kind, bytes);
    }
};

struct SavedEntry {
    std::string name;
    StateKind kind;
    std::size_t bytes;
    int rank;  // of PerRank: whose
    std::vector<SavedPiece> pieces;
};

struct SavedState {
    std::uint64_t sequence = 0;
    int workers = 0;
    std::vector<SavedEntry> entries;
    std::vector<std::shared_ptr<void>> memory;  // where the pieces lie

    /// `rank` is the one of whom a PerRank entry is wanted.
    const SavedEntry* find(const std::string& name, StateKind kind, int rank) const {
        for (const SavedEntry& entry : entries)
            if (entry.name == name && entry.kind == kind && (kind == StateKind::Replicated || entry.rank == rank))
                return &entry;
        return nullptr;
    }
};

}  // namespace detail
}  // namespace hvd
