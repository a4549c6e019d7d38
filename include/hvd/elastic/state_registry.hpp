// StateRegistry: what is state of the job on this worker, restored when it is added and committed together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/core/scalar.hpp>
#include <hvd/elastic/state_store.hpp>

namespace hvd::detail {

/// What a launcher tells a worker about the state of the job.
struct StateSetting {
    int rank = 0, workers = 1;
    std::size_t part = 0, parts = 1;    // of the ranks that split replicated state: those of a node; 0: it keeps none
    std::uint64_t life = 0;             // counts the starts of the job
    std::uint64_t commit_every = 1;     // steps
    std::shared_ptr<StateStore> store;  // none: commits keep nothing, unless in files
    int place = -1;                     // of its slots in the store, if it is not its rank
    std::optional<SavedState> saved;    // what the job goes on from
    int origin = -1;                    // the rank whose PerRank state this rank takes over; -1: it is new
    std::function<void(std::uint64_t)> committed = [](std::uint64_t) {};
};

class StateRegistry {
public:
    explicit StateRegistry(StateSetting setting)
        : setting_{std::move(setting)}, sequence_{setting_.saved ? setting_.saved->sequence : 0} {
        if (!setting_.saved) setting_.saved.emplace();
    }

    int rank() const { return setting_.rank; }
    int workers() const { return setting_.workers; }
    std::uint64_t sequence() const { return sequence_; }
    bool is_restored() const { return setting_.saved->sequence > 0; }

    /// Nothing has been added yet.
    bool is_empty() const { return items_.empty(); }
    /// What is added from now on is restored from this, whose PerRank objects are those of rank `origin`; -1: of none. For
    /// before anything is added.
    void go_on_from(SavedState saved, int origin) {
        sequence_ = saved.sequence;
        setting_.saved = std::move(saved);
        setting_.origin = origin;
    }

    /// How to wait until all ranks have committed the same: a collective call, which throws when they differ.
    void agree_by(std::function<void(std::uint64_t signature, const std::string& words)> agree) {
        agree_ = std::move(agree);
    }
    /// `f(sequence)` is called on every rank after each commit, until `owner` is forgotten.
    void after_commit(const void* owner, std::function<void(std::uint64_t)> f) {
        observers_.emplace_back(owner, std::move(f));
    }
    void forget(const void* owner) {
        std::erase_if(observers_, [owner](const auto& observer) { return observer.first == owner; });
    }

    /// Restores the object if something is there under its name. Throws UsageError when the name is taken or what is there
    /// is of another form.
    void add(const std::string& name, StateObject object, StateKind kind) {
        if (Item* item = find(name)) {
            if (item->stage == Stage::Live)
                throw UsageError{located("state().add", setting_.rank, setting_.workers,
                                         "there are two objects '" + name + "'; give each a name of its own")};
            if (item->stage == Stage::Unclaimed) {
                const SavedPiece piece{0, item->bytes.size(), item->bytes.data()};
                SavedReader reader{name, {&piece, 1}, item->bytes.size()};
                object.load(reader);
            }
            erase(name);
        }
        fault_point("restore: before an object", setting_.rank);
        if (const SavedEntry* entry = setting_.saved->find(name, kind, setting_.origin)) {
            SavedReader reader{name, entry->pieces, entry->bytes};
            object.load(reader);
        }
        items_.push_back({name, kind, Stage::Live, std::move(object), {}, false});
        fault_point("restore: after an object", setting_.rank);
    }

    /// How many tensors are in the list that `add` would restore under this name.
    std::uint64_t saved_tensors(const std::string& name) {
        std::uint64_t count = 0;
        const auto read = [&](std::span<const SavedPiece> pieces, std::size_t bytes) {
            SavedReader{name, pieces, bytes}.take(&count, sizeof count);
            return count;
        };
        if (const Item* item = find(name)) {
            const SavedPiece piece{0, item->bytes.size(), item->bytes.data()};
            return item->stage == Stage::Unclaimed ? read({&piece, 1}, piece.bytes) : 0;
        }
        const SavedEntry* entry = setting_.saved->find(name, StateKind::Replicated, setting_.origin);
        return entry == nullptr ? 0 : read(entry->pieces, entry->bytes);
    }

    /// The object is not looked at any more. `keeps`: what it is now stays part of the state, if it has been committed,
    /// so that a body that is entered again passes quickly by what it had done with it.
    void remove(const std::string& name, bool keeps) {
        Item* item = find(name);
        if (item == nullptr || item->stage != Stage::Live) return;
        if (!keeps || !item->is_committed) {
            erase(name);
            return;
        }
        StateChunks chunks;
        item->object.save(chunks);
        item->bytes.clear();
        for (const auto chunk : chunks.chunks()) item->bytes.insert(item->bytes.end(), chunk.begin(), chunk.end());
        item->object = {};
        item->stage = Stage::Ended;
    }

    /// The name of an object of hvd's for which the user gave none: "optimizer 0", "optimizer 1" ...
    std::string free_name(const std::string& kind) {
        for (int i = 0;; ++i) {
            const std::string name = kind + " " + std::to_string(i);
            const Item* item = find(name);
            if (item == nullptr || item->stage == Stage::Unclaimed) return name;
            if (item->stage == Stage::Ended)
                throw UsageError{
                    located("state", setting_.rank, setting_.workers,
                            "another " + kind +
                                " begins after the first has ended, and a job that starts again could not tell them "
                                "apart; give both a .name in their options, or keep one for the whole body")};
        }
    }

    /// Those who step: the commit comes when each of them has.
    std::size_t add_stepper(const std::string& name) {
        steppers_.push_back({name});
        return steppers_.size() - 1;
    }
    void remove_stepper(std::size_t id) { steppers_[id].is_gone = true; }
    void stepped(std::size_t id) {
        ++activity_;
        ++steppers_[id].steps;
        for (const Stepper& other : steppers_)
            if (!other.is_gone && other.steps == 0) return warn_of_waiting(steppers_[id], other);
        for (Stepper& stepper : steppers_) stepper.steps = 0;
        fault_point("step: before its commit", setting_.rank);
        if (++steps_ % setting_.commit_every == 0) commit();
    }
    /// A backward pass was taken into account, or a commit made: samples used meanwhile were trained on.
    void note_activity() { ++activity_; }
    std::uint64_t activity() const { return activity_; }

    /// Collective: what is registered now is the state of the job from here on. Returns when the shares of all ranks are in.
    void commit() {
        ++activity_;
        keep_unclaimed();
        std::vector<StateEntry> entries;
        std::vector<StateChunks> chunks;
        collect(entries, chunks);
        std::uint64_t signature = hash_value(hash_begin, sequence_), bytes = 0;
        for (const StateEntry& entry : entries) {
            signature = hash_value(hash_bytes(signature, entry.name), entry.kind);
            if (entry.state_kind() == StateKind::PerRank) continue;
            signature = hash_value(signature, entry.bytes);
            bytes += entry.bytes;
        }
        fault_point("commit: before the slot", setting_.rank);
        if (setting_.store)
            write_slot(setting_.store->slot(setting_.place < 0 ? setting_.rank : setting_.place, sequence_ + 1),
                       {setting_.life, sequence_ + 1}, setting_.rank, setting_.workers, setting_.part, setting_.parts,
                       entries, chunks);
        if (agree_) agree_(signature, std::to_string(entries.size()) + " objects, " + std::to_string(bytes) + " bytes");
        ++sequence_;
        for (Item& item : items_) item.is_committed = true;
        fault_point("commit: all shares are in", setting_.rank);
        setting_.committed(sequence_);
        for (const auto& [owner, observe] : observers_) observe(sequence_);
    }

    /// The bytes of all objects.
    void collect(std::vector<StateEntry>& entries, std::vector<StateChunks>& chunks) {
        for (Item& item : items_) {
            StateChunks& own = chunks.emplace_back();
            if (item.stage == Stage::Live) item.object.save(own);
            else own.refer(item.bytes.data(), item.bytes.size());
            entries.push_back({item.name, static_cast<std::uint32_t>(item.kind), own.bytes()});
        }
    }

private:
    enum class Stage {
        Live,
        Ended,      // its last bytes are kept
        Unclaimed,  // saved by an earlier life, and nobody has asked for it yet
    };
    struct Item {
        std::string name;
        StateKind kind;
        Stage stage;
        StateObject object;
        std::vector<std::byte> bytes;  // of one that is not live
        bool is_committed;
    };
    struct Stepper {
        std::string name;
        std::uint64_t steps = 0;  // since the last commit
        bool is_gone = false;
    };

    /// One that steps again and again keeps others' work from being committed, perhaps without knowing.
    void warn_of_waiting(const Stepper& own, const Stepper& other) const {
        constexpr std::uint64_t many = 100;
        if (own.steps != many || setting_.rank != 0) return;
        std::fprintf(stderr,
                     "hvd: '%s' has stepped %d times since the last commit, which waits for a step of '%s'; construct "
                     "that one where it begins to step, or call world.state().commit()\n",
                     own.name.c_str(), static_cast<int>(many), other.name.c_str());
    }

    Item* find(const std::string& name) {
        for (Item& item : items_)
            if (item.name == name) return &item;
        return nullptr;
    }
    void erase(const std::string& name) {
        std::erase_if(items_, [&](const Item& item) { return item.name == name; });
    }

    /// What was saved and has not been added before the first commit is carried along, for whoever adds it later: the
    /// commit after the next overwrites it.
    void keep_unclaimed() {
        if (has_kept_) return;
        has_kept_ = true;
        for (const SavedEntry& entry : setting_.saved->entries) {
            if (entry.kind == StateKind::PerRank && entry.rank != setting_.origin) continue;
            if (find(entry.name) != nullptr) continue;
            std::vector<std::byte> bytes(entry.bytes);
            SavedReader{entry.name, entry.pieces, entry.bytes}.take(bytes.data(), bytes.size());
            items_.push_back({entry.name, entry.kind, Stage::Unclaimed, {}, std::move(bytes), true});
        }
        const std::uint64_t sequence = setting_.saved->sequence;
        setting_.saved.emplace();
        setting_.saved->sequence = sequence;
    }

    StateSetting setting_;
    std::uint64_t sequence_, activity_ = 0, steps_ = 0;
    bool has_kept_ = false;
    std::vector<Item> items_;
    std::vector<Stepper> steppers_;
    std::vector<std::pair<const void*, std::function<void(std::uint64_t)>>> observers_;
    std::function<void(std::uint64_t, const std::string&)> agree_;
};

}  // namespace hvd::detail
