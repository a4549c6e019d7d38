// ShardedDataset: one data set, shared among the workers, an epoch at a time. Costs no message: all ranks compute the
// same permutation.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/data/dataset.hpp>
#include <hvd/data/epoch.hpp>
#include <hvd/data/shares.hpp>

namespace hvd {

/// How a data set is shared. The same on all ranks.
struct ShardOptions {
    std::size_t batch_size = 1;     ///< samples per worker and step
    std::uint64_t seed = 0;         ///< of the order of the samples
    Last last = Last::Pad;          ///< what happens to an incomplete last batch
    std::vector<double> weights{};  ///< empty, or the relative speed of each rank, by which every step is split
    bool shuffle = true;            ///< false: each epoch in the order of the set
    std::string
        name{};  ///< under which an elastic job keeps its position; needed when one set begins after another has ended
};

namespace detail {

template <class World>
concept HasRankAndSize = requires(World& world) {
    { world.rank() } -> std::convertible_to<int>;
    { world.size() } -> std::convertible_to<int>;
};

template <class World>
consteval bool explain_world() {
    if constexpr (HasRankAndSize<World>) {
        return true;
    } else {
        static_assert(
            never<World>,
            "hvd: this is no communicator, since it lacks rank() and size(); pass the world that launch gives");
        return false;
    }
}

}  // namespace detail

/// A data set, or a tensor whose rows are the samples, shared among the workers of a world.
/// An lvalue set is referred to and must outlive this object; an rvalue is moved in.
/// Every worker makes one with the same set and options, and goes through the same epochs. No call communicates.
template <class Set>
class ShardedDataset {
public:
    using set_type = std::remove_reference_t<Set>;

    /// `world` gives `rank()` and `size()`. Throws UsageError for a batch size of zero and for unusable weights.
    template <class S, class World>
    ShardedDataset(S&& set, [[maybe_unused]] World&& world, ShardOptions options = {})
        : owned_{keep(std::forward<S>(set))},
          set_{owned_ ? owned_.get() : std::addressof(set)},
          source_{*set_},
          options_{std::move(options)} {
        if constexpr (detail::explain_dataset<set_type>()) {
            if constexpr (detail::explain_world<std::remove_reference_t<World>>()) {
                rank_ = static_cast<int>(world.rank());
                workers_ = static_cast<int>(world.size());
            }
        }
        check_options();
        position_.state = position_.committed = {options_.seed, source_.size(), 0, 0, options_.shuffle ? 1u : 0u};
        if constexpr (requires { world.state().registry(); }) add_to(world.state().registry());
    }
    ~ShardedDataset() {
        if (position_.registry != nullptr) position_.registry->remove(options_.name, position_.was_committed());
    }

    // Epochs refer to it, and the world may know where it is: it stays in its place.
    ShardedDataset(const ShardedDataset&) = delete;
    ShardedDataset& operator=(const ShardedDataset&) = delete;

    /// The batches of epoch `number` (0, 1, ...) on this worker: `for (auto batch : data.epoch(0))`.
    /// After a restore: those that remain in the restored epoch, none in an earlier one.
    Epoch<set_type> epoch(std::integral auto number) {
        const std::uint64_t n = not_negative(number, "epoch");
        std::uint64_t first = 0;
        if (is_restored_ && n == restored_.epoch) first = restored_.position;
        if (is_restored_ && n < restored_.epoch) first = position_.state.length;  // nothing is left
        return {source_, n, plan(static_cast<std::size_t>(first)), position_};
    }

    /// Epoch numbers for a training of `count` epochs in all: 0 ... count-1, or from the restored epoch on.
    /// An epoch that was restored at its very end comes too, with no batches, so that what follows its loop is done.
    EpochNumbers epochs(std::integral auto count) const {
        return {first_epoch(), static_cast<std::size_t>(not_negative(count, "epochs"))};
    }

    /// The restored epoch, or 0.
    std::size_t first_epoch() const { return is_restored_ ? static_cast<std::size_t>(restored_.epoch) : 0; }

    /// The position of the job, equal on all ranks. The batch in hand counts as used.
    ShardState state() const { return position_.state; }

    /// Goes on from a position, perhaps with another number of workers or batch size: the samples that remain in its
    /// epoch are shared anew. All ranks must restore the same state. Throws UsageError when it is of another set or seed.
    void restore(const ShardState& state) {
        if (state.length != position_.state.length)
            refuse("restore", "the state is of a set of " + std::to_string(state.length) +
                                  " samples and this one has " + std::to_string(position_.state.length) +
                                  "; restore into the set that was trained on");
        if (state.seed != position_.state.seed)
            refuse("restore", "the state has seed " + std::to_string(state.seed) + " and this set has seed " +
                                  std::to_string(position_.state.seed) + "; construct it with the seed of the state");
        if (state.shuffle != position_.state.shuffle)
            refuse("restore", "the state and this set do not agree on whether to shuffle; give both the same option");
        if (state.position > state.length)
            refuse("restore", "position " + std::to_string(state.position) + " lies behind the last of " +
                                  std::to_string(state.length) + " samples; the state is damaged, use another");
        position_.state = position_.committed = restored_ = state;
        is_restored_ = true;
    }

    /// Samples in the whole set.
    std::size_t size() const { return static_cast<std::size_t>(position_.state.length); }
    bool empty() const { return position_.state.length == 0; }
    /// Samples per worker and step, without regard to weights.
    std::size_t batch_size() const { return options_.batch_size; }
    /// Batches in a whole epoch, the same on all ranks.
    std::size_t steps_per_epoch() const { return plan(0).steps; }
    std::uint64_t seed() const { return options_.seed; }
    const ShardOptions& options() const { return options_; }
    /// The rank and the number of workers that the samples are shared for.
    int rank() const { return rank_; }
    int workers() const { return workers_; }
    /// The whole set.
    set_type& set() { return *set_; }
    const set_type& set() const { return *set_; }

private:
    template <class S>
    static std::unique_ptr<set_type> keep(S&& set) {
        if constexpr (std::is_lvalue_reference_v<S>) return nullptr;
        else return std::make_unique<set_type>(std::forward<S>(set));
    }

    [[noreturn]] void refuse(const char* operation, const std::string& cause) const {
        throw UsageError{detail::located(operation, rank_, workers_, cause)};
    }

    void add_to(detail::StateRegistry* registry) {
        if (registry == nullptr) return;
        if (options_.name.empty()) options_.name = registry->free_name("data set");
        registry->add(
            options_.name,
            {[this](detail::StateChunks& chunks) { chunks.refer(&position_.to_commit(), sizeof(ShardState)); },
             [this](detail::SavedReader& reader) {
                 ShardState state;
                 if (reader.left() != sizeof state) reader.wrong();
                 reader.take(&state, sizeof state);
                 restore(state);
             }},
            StateKind::Replicated);
        position_.registry = registry;
    }

    void check_options() const {
        constexpr const char* name = "ShardedDataset";
        if (workers_ < 1 || rank_ < 0 || rank_ >= workers_)
            refuse(name, "the world has no such rank; pass a world that this worker is a member of");
        if (options_.batch_size == 0) refuse(name, "batch_size is 0; give each worker at least one sample per batch");
        const std::vector<double>& weights = options_.weights;
        if (weights.empty()) return;
        if (weights.size() != static_cast<std::size_t>(workers_))
            refuse(name, std::to_string(weights.size()) + " weights for " + std::to_string(workers_) +
                             " workers; give one weight per rank, or none");
        bool is_any_positive = false;
        for (std::size_t r = 0; r < weights.size(); ++r) {
            if (!(weights[r] >= 0 && weights[r] <= 1.7976931348623157e308))  // the largest double: neither inf nor NaN
                refuse(name, "the weight of rank " + std::to_string(r) + " is " + std::to_string(weights[r]) +
                                 "; weights must be finite and not negative");
            is_any_positive = is_any_positive || weights[r] > 0;
        }
        if (!is_any_positive) refuse(name, "all weights are zero; at least one worker must get samples");
    }

    template <class I>
    std::uint64_t not_negative(I number, const char* operation) const {
        if constexpr (std::is_signed_v<I>)
            if (number < 0) refuse(operation, std::to_string(number) + " is negative; epochs are counted from 0");
        return static_cast<std::uint64_t>(number);
    }

    detail::ShardPlan plan(std::size_t first) const {
        return detail::make_shard_plan(size(), first, options_.batch_size, options_.last,
                                       static_cast<std::size_t>(rank_), static_cast<std::size_t>(workers_),
                                       options_.weights);
    }

    std::unique_ptr<set_type> owned_;  // null when the set is somebody else's
    set_type* set_;
    detail::Source<set_type> source_;
    ShardOptions options_;
    int rank_ = 0, workers_ = 1;
    detail::ShardPosition position_{};
    ShardState restored_{};
    bool is_restored_ = false;
};

template <class S, class World>
ShardedDataset(S&&, World&&) -> ShardedDataset<std::remove_reference_t<S>>;
template <class S, class World>
ShardedDataset(S&&, World&&, ShardOptions) -> ShardedDataset<std::remove_reference_t<S>>;

}  // namespace hvd
