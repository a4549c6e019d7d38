// Checkpoint: what a training has committed, in a file, from which it goes on with any number of workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/keep_state.hpp>
#include <hvd/comm/state_together.hpp>

namespace hvd {

/// Options of Checkpoint. The order of the fields is public; new ones go to the end.
struct CheckpointOptions {
    /// Commits (with a DistributedOptimizer: steps) from one file to the next. 0: only `save()` writes.
    std::uint64_t every = 0;
    /// Go on from what is in the file. False: begin anew; the file becomes the one before.
    bool resume = true;
};

/// Writes the state of the job to a file: the parameters and states of its optimizers, the positions of its data sets, and
/// what was added to `world.state()`. Made in the body before all of those; what is there already is then restored by their
/// constructors, unless the body goes on from a newer commit after a death. Works on every transport, and needs no `.elastic`.
///
/// The file is written beside the old one and renamed, and the one before stays as FILE.previous, so that there is a whole
/// one whenever the machine stops. A damaged file is refused with a sentence, and the one before is used. Only rank 0 reads
/// and writes.
template <class Communicator>
class Checkpoint {
public:
    /// Collective. Throws DataError on all ranks when there is a file and no whole one, UsageError when there is something
    /// to restore and an object has been added before.
    Checkpoint(const Communicator& world, std::string path, CheckpointOptions options = {})
        : world_{world}, file_{std::move(path)}, options_{options} {
        if (!world.state().registry()) {
            detail::StateSetting setting;
            setting.rank = world.rank();
            setting.workers = world.size();
            detail::keep_state(world, std::move(setting));
        }
        registry_ = world.state().registry();
        if (options_.resume && !registry_->is_restored()) resume();
        registry_->after_commit(this, [this](std::uint64_t number) {
            if (options_.every != 0 && number % options_.every == 0 && !is_saving_) write();
        });
    }
    Checkpoint(const Checkpoint&) = delete;
    Checkpoint& operator=(const Checkpoint&) = delete;
    ~Checkpoint() { registry_->forget(this); }

    /// Commits what is there now and writes it. For between steps and the end. Collective. Throws DataError on all ranks when
    /// it cannot be written (no room, no such folder); then the old file is as it was, and training may go on.
    void save() {
        {
            const Saving saving{is_saving_};
            registry_->commit();
        }
        write();
    }

    /// The body goes on from what was in the file, and not from the beginning or from a newer commit.
    bool is_resumed() const { return is_resumed_; }
    const std::string& path() const { return file_.path(); }

private:
    struct Saving {
        bool& is;
        explicit Saving(bool& b) : is{b} { is = true; }
        Saving(const Saving&) = delete;
        Saving& operator=(const Saving&) = delete;
        ~Saving() { is = false; }
    };

    void resume() {
        std::optional<detail::SavedState> saved = detail::read_together(world_, file_);
        if (!saved) return;
        if (!registry_->is_empty())
            throw UsageError{detail::located(
                "Checkpoint", world_.rank(), world_.size(),
                "objects were added to the state before it, which can no longer be restored; make it first in the body")};
        const int origin = saved->workers == world_.size() ? world_.rank() : -1;
        registry_->go_on_from(std::move(*saved), origin);
        is_resumed_ = true;
    }

    /// After a commit, when the objects are as they were committed.
    void write() {
        std::vector<detail::StateEntry> entries;
        std::vector<detail::StateChunks> chunks;
        registry_->collect(entries, chunks);
        detail::SavedState own;
        own.sequence = registry_->sequence();
        for (std::size_t i = 0; i < entries.size(); ++i) {
            detail::SavedEntry& entry = own.entries.emplace_back(
                detail::SavedEntry{entries[i].name, entries[i].state_kind(), chunks[i].bytes(), world_.rank(), {}});
            std::size_t from = 0;
            for (const auto chunk : chunks[i].chunks()) {
                entry.pieces.push_back({from, chunk.size(), chunk.data()});
                from += chunk.size();
            }
        }
        detail::write_together(world_, file_, std::move(own));
    }

    Communicator world_;
    detail::CheckpointFile file_;
    CheckpointOptions options_;
    detail::StateRegistry* registry_ = nullptr;
    bool is_resumed_ = false, is_saving_ = false;
};

template <class T, class A>
Checkpoint(const Communicator<T, A>&, std::string, CheckpointOptions = {}) -> Checkpoint<Communicator<T, A>>;

}  // namespace hvd
