// How Hierarchical is carried out: block by block, both levels at the same time.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <hvd/algorithm/ring.hpp>
#include <hvd/algorithm/work.hpp>

namespace hvd::detail {

/// The parts of a communicator that Hierarchical works on. `between` is empty on ranks beyond the smallest node's size.
template <Transport T, class IntraState, class InterState>
struct HierarchicalState {
    T inside;
    IntraState intra;
    ScratchState spread{};
    std::optional<T> between{};
    std::optional<InterState> inter{};
    std::vector<int> inside_ranks{}, between_ranks{};  // of these, in the whole
    std::size_t shares = 1;                            // how many ranks of each node carry data between nodes
    bool overlaps = false;                             // some node has several ranks, so there is work on both levels
};

/// The data in blocks, each of which is reduced inside the node, then between nodes, then spread inside. While one block is
/// between nodes the one before it and the one after it are inside, so that both levels work at the same time.
template <class H, Transport T, class Work>
class HierarchicalRun final : public Operation {
public:
    HierarchicalRun(const H& algorithm, Channel<T> channel, typename H::template State<T>& state, Work work)
        : algorithm_{algorithm}, state_{state}, inside_{state.inside, channel.tag()}, work_{work} {
        constexpr std::size_t line = 64;  // elements; blocks begin on lines of their own
        const std::size_t n = work.size();
        const std::size_t most = state.overlaps ? algorithm.block_bytes / work.fold().element() / line * line : 0;
        if (most > 0) count_ = std::max<std::size_t>(1, (n + most - 1) / most);
    }

    bool advance() override {
        for (;;) {
            if (across_ && across_->advance()) {
                across_.reset();
                ++crossed_;
            }
            if (within_ && within_->advance()) {
                within_.reset();
                end_step();
            }
            bool began = false;
            if (!across_ && crossed_ < reduced_) began = begin_between();
            if (!within_ && step_ < 2 * count_) began = begin_inside() || began;
            if (!began) return !within_ && step_ == 2 * count_;
        }
    }
    int waiting_for() const override {
        const auto& run = within_ ? within_ : across_;
        const int peer = run ? run->waiting_for() : -1;
        return peer < 0 ? -1 : (within_ ? state_.inside_ranks : state_.between_ranks)[static_cast<std::size_t>(peer)];
    }

private:
    struct Block {
        std::size_t first, size;
        Layout shares;
    };

    /// Of the steps inside the node, in which each block has two: reduce 0, reduce 1, spread 0, reduce 2, spread 1, ...
    bool is_spread(std::size_t step) const { return step == 2 * count_ - 1 || (step > 0 && step % 2 == 0); }
    std::size_t block_of(std::size_t step) const {
        if (step == 2 * count_ - 1) return count_ - 1;
        return is_spread(step) ? step / 2 - 1 : (step + 1) / 2;
    }

    Block block(std::size_t i) const {
        const std::size_t first = split_begin(work_.size(), count_, i),
                          n = split_begin(work_.size(), count_, i + 1) - first;
        std::vector<std::size_t> begin(static_cast<std::size_t>(inside_.size()) + 1, n);
        for (std::size_t k = 0; k < state_.shares; ++k) begin[k] = split_begin(n, state_.shares, k);
        return {first, n, Layout{std::move(begin)}};
    }

    void end_step() {
        if (!is_spread(step_)) ++reduced_;
        ++step_;
    }

    bool begin_between() {
        if (!state_.between) {
            ++crossed_;
            return true;
        }
        const Block b = block(crossed_);
        const auto rank = static_cast<std::size_t>(inside_.rank());
        across_ = work_.start(algorithm_.inter, Channel<T>{*state_.between, inside_.tag()}, *state_.inter,
                              b.first + b.shares.begin(rank), b.shares.begin(rank + 1) - b.shares.begin(rank));
        return true;
    }

    bool begin_inside() {
        const bool spreads = is_spread(step_);
        const std::size_t i = block_of(step_);
        if (spreads && crossed_ <= i) return false;
        if (inside_.size() == 1) {
            end_step();
            return true;
        }
        const auto& intra = algorithm_.intra;
        const Block b = block(i);
        const std::size_t element = work_.fold().element();
        std::byte* data = reinterpret_cast<std::byte*>(work_.begin()) + b.first * element;
        if constexpr (Splits<std::remove_cvref_t<decltype(intra)>, T>) {
            if (spreads) within_ = intra.start_allgather(inside_, state_.intra, data, b.shares, element);
            else within_ = intra.start_reduce_scatter(inside_, state_.intra, data, b.shares, work_.fold());
        } else {
            if (spreads) within_ = Ring{}.start_allgather(inside_, state_.spread, data, b.shares, element);
            else within_ = work_.start(intra, inside_, state_.intra, b.first, b.size);
        }
        return true;
    }

    const H& algorithm_;
    typename H::template State<T>& state_;
    Channel<T> inside_;
    Work work_;
    std::size_t count_ = 1;  // blocks
    std::size_t step_ = 0, reduced_ = 0, crossed_ = 0;
    std::unique_ptr<Operation> within_, across_;
};

}  // namespace hvd::detail
