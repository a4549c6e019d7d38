// StateStore: the slots of all ranks of a job, two for each, and the newest commit that is whole in them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <hvd/elastic/state_slot.hpp>

namespace hvd::detail {

class StateStore {
public:
    /// The keeper's: empty slots for so many ranks. Throws TransportError.
    explicit StateStore(int ranks) {
        for (int slot = 0; slot < 2 * ranks; ++slot) files_.push_back(SlotFile::make());
    }
    /// A worker's: the slots that process `keeper` holds open under these numbers. Throws TransportError.
    StateStore(int keeper, const std::vector<int>& numbers) {
        for (const int number : numbers) files_.push_back(SlotFile::open(keeper, number));
    }

    /// Slot i belongs to rank i / 2.
    std::vector<int> numbers() const {
        std::vector<int> numbers;
        for (const SlotFile& file : files_) numbers.push_back(file.number());
        return numbers;
    }
    int ranks() const { return static_cast<int>(files_.size() / 2); }

    /// Where rank `rank` writes its share of this commit: over the one before the last.
    SlotFile& slot(int rank, std::uint64_t sequence) {
        return files_[2 * static_cast<std::size_t>(rank) + static_cast<std::size_t>(sequence % 2)];
    }

    /// The newest commit of which every share is there and undamaged. For when nobody writes.
    std::optional<CommitKey> newest() {
        std::vector<CommitKey> keys;
        for (SlotFile& file : files_)
            if (const SlotHeader* header = look_at_slot(file))
                if (std::find(keys.begin(), keys.end(), header->key) == keys.end()) keys.push_back(header->key);
        // Of equal sequence the older life cannot be whole: a newer one began from the newest that was.
        std::sort(keys.begin(), keys.end(), [](const CommitKey& a, const CommitKey& b) {
            return a.sequence != b.sequence ? a.sequence > b.sequence : a.life > b.life;
        });
        for (const CommitKey& key : keys)
            if (is_whole(key)) return key;
        return std::nullopt;
    }

    /// The state of a commit that `newest` gave. It is there until the second commit after it.
    SavedState read(const CommitKey& key) {
        SavedState state;
        state.sequence = key.sequence;
        for (const SlotHeader* header : shares(key)) {
            state.workers = static_cast<int>(header->workers);
            read_slot(*header, state);
        }
        for (SavedEntry& entry : state.entries) put_in_order(entry.pieces);
        return state;
    }

private:
    /// Each node has a share of everything: what comes again is left out.
    static void put_in_order(std::vector<SavedPiece>& pieces) {
        std::sort(pieces.begin(), pieces.end(),
                  [](const SavedPiece& a, const SavedPiece& b) { return a.from < b.from; });
        std::vector<SavedPiece> once;
        std::size_t end = 0;
        for (const SavedPiece& piece : pieces) {
            const std::size_t known = end - piece.from;  // pieces leave no gaps
            if (piece.bytes <= known) continue;
            once.push_back({end, piece.bytes - known, piece.data + known});
            end = piece.from + piece.bytes;
        }
        pieces = std::move(once);
    }

    /// Those that are there, in the order of the ranks.
    std::vector<const SlotHeader*> shares(const CommitKey& key) {
        std::vector<const SlotHeader*> found;
        for (int rank = 0; rank < ranks(); ++rank) {
            const SlotHeader* header = look_at_slot(slot(rank, key.sequence));
            if (header != nullptr && header->key == key) found.push_back(header);
        }
        return found;
    }

    bool is_whole(const CommitKey& key) {
        const auto found = shares(key);
        if (found.empty() || found.size() != found.front()->workers) return false;
        return std::all_of(found.begin(), found.end(), [](const SlotHeader* h) { return is_undamaged(*h); });
    }

    std::vector<SlotFile> files_;
};

}  // namespace hvd::detail
