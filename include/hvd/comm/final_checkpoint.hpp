// FinalCheckpoint: what LaunchOptions::checkpoint means where nobody keeps state over the lives of the workers.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <hvd/comm/keep_state.hpp>
#include <hvd/comm/state_together.hpp>
#include <hvd/transport/launch_options.hpp>

namespace hvd::detail {

/// Each rank keeps its last commits itself: rank 0 what is the same on all, and every rank what is its own. Does nothing
/// without a file.
template <class Communicator>
class FinalCheckpoint {
public:
    /// Collective. Throws DataError on all ranks when there is a file and no whole one.
    FinalCheckpoint(const Communicator& world, const LaunchOptions& options)
        : world_{world}, file_{options.checkpoint} {
        if (options.checkpoint.empty()) return;
        store_ = std::make_shared<StateStore>(1);
        StateSetting setting;
        setting.rank = world.rank();
        setting.workers = world.size();
        setting.parts = world.rank() == 0 ? 1 : 0;
        setting.commit_every = static_cast<std::uint64_t>(options.commit_every);
        setting.store = store_;
        setting.place = 0;
        setting.saved = read_together(world, file_);
        if (setting.saved) {
            begun_ = setting.saved->sequence;
            setting.origin = setting.saved->workers == world.size() ? world.rank() : -1;
        }
        keep_state(world, std::move(setting));
    }

    /// Writes the last commit, if there was one. Collective. Throws DataError on all ranks.
    void write() {
        if (!store_) return;
        const std::uint64_t sequence = world_.state().commits();
        if (sequence == begun_) return;
        SavedState own;
        own.sequence = sequence;
        if (const SlotHeader* header = look_at_slot(store_->slot(0, sequence))) read_slot(*header, own);
        std::erase_if(own.entries, [this](const SavedEntry& entry) {
            return entry.kind == StateKind::Replicated && world_.rank() != 0;
        });
        write_together(world_, file_, std::move(own));
    }

private:
    Communicator world_;
    CheckpointFile file_;
    std::shared_ptr<StateStore> store_;
    std::uint64_t begun_ = 0;
};

}  // namespace hvd::detail
