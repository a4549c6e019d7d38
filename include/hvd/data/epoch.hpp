// An epoch as a range of batches, and a range of epoch numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <hvd/data/batch.hpp>
#include <hvd/data/permutation.hpp>
#include <hvd/data/shares.hpp>
#include <hvd/elastic/state_registry.hpp>

namespace hvd {

/// The position of a ShardedDataset: the same on all ranks, trivially copyable, to be kept with the weights.
/// `position` samples of epoch `epoch` are used.
struct ShardState {
    std::uint64_t seed = 0, length = 0, epoch = 0, position = 0, shuffle = 1;
    friend bool operator==(const ShardState&, const ShardState&) = default;
};

namespace detail {

/// Where a ShardedDataset is, and what a commit says of it. Samples that were used without a step, to evaluate, are no part
/// of what is committed.
struct ShardPosition {
    ShardState state{}, committed{};
    StateRegistry* registry = nullptr;

    void use(std::uint64_t epoch, std::uint64_t position) {
        state.epoch = epoch;
        state.position = position;
        if (registry == nullptr || is_passing) return;
        is_passing = true;
        activity = registry->activity();
    }
    /// The loop over an epoch is at its end, or was left.
    void end_pass() {
        if (!is_passing) return;
        is_passing = false;
        is_trained_on = registry->activity() != activity;
    }
    const ShardState& to_commit() {
        if (is_passing || is_trained_on) committed = state;
        return committed;
    }

    bool was_committed() const { return committed.epoch > 0 || committed.position > 0; }

    bool is_passing = false, is_trained_on = false;
    std::uint64_t activity = 0;
};

}  // namespace detail

/// One epoch of one worker: a range of batches, of the same length on every worker.
/// Taking a batch by iteration moves the position of the ShardedDataset, which must outlive the Epoch.
template <class Set>
class Epoch {
public:
    using value_type = Batch<Set>;

    class iterator {
    public:
        using value_type = Batch<Set>;
        using reference = Batch<Set>;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using iterator_category = std::input_iterator_tag;

        iterator() = default;
        iterator(const Epoch* epoch, std::size_t step) : epoch_{epoch}, step_{step} {}
        Batch<Set> operator*() const {
            epoch_->use(step_);
            return (*epoch_)[step_];
        }
        iterator& operator++() {
            if (++step_ == epoch_->size()) epoch_->position_->end_pass();
            return *this;
        }
        iterator operator++(int) {
            const iterator old = *this;
            ++*this;
            return old;
        }
        friend bool operator==(const iterator& a, const iterator& b) { return a.step_ == b.step_; }

    private:
        const Epoch* epoch_ = nullptr;
        std::size_t step_ = 0;
    };
    using const_iterator = iterator;

    Epoch(detail::Source<Set> source, std::uint64_t number, const detail::ShardPlan& plan,
          detail::ShardPosition& position)
        : source_{source},
          number_{number},
          plan_{plan},
          order_{plan.length, position.state.seed, number},
          position_{&position} {}
    Epoch(const Epoch&) = default;
    Epoch& operator=(const Epoch&) = default;
    ~Epoch() { position_->end_pass(); }

    /// The number of the epoch.
    std::size_t number() const { return static_cast<std::size_t>(number_); }

    /// Batches (steps) in it, the same on all ranks; those used before a restore do not count.
    std::size_t size() const { return plan_.steps; }
    bool empty() const { return plan_.steps == 0; }

    iterator begin() const { return {this, 0}; }
    iterator end() const { return {this, plan_.steps}; }

    /// Batch `step`, to look at or to read ahead: the position does not move.
    Batch<Set> operator[](std::size_t step) const {
        const detail::Share share = plan_.share(step);
        std::vector<std::size_t> indices(share.count);
        std::size_t place = plan_.place(step) + share.begin;
        for (std::size_t& index : indices) index = sample_at(place++);
        return {source_, std::move(indices)};
    }

    /// Says that batch `step` is in hand, as iteration does: from now on `state()` counts it as used.
    void use(std::size_t step) const { position_->use(number_, plan_.position_after(step)); }

private:
    /// Places past the end are those that Pad repeats: the epoch's first samples again.
    std::size_t sample_at(std::size_t place) const {
        if (place >= plan_.length) place %= plan_.length;
        return position_->state.shuffle ? order_[place] : place;
    }

    detail::Source<Set> source_;
    std::uint64_t number_;
    detail::ShardPlan plan_;
    Permutation order_;
    detail::ShardPosition* position_;
};

/// The numbers first, first + 1, ..., end - 1.
class EpochNumbers {
public:
    class iterator {
    public:
        using value_type = std::size_t;
        using reference = std::size_t;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using iterator_category = std::input_iterator_tag;
        using iterator_concept = std::forward_iterator_tag;

        iterator() = default;
        explicit iterator(std::size_t number) : number_{number} {}
        std::size_t operator*() const { return number_; }
        iterator& operator++() { return ++number_, *this; }
        iterator operator++(int) { return iterator{number_++}; }
        friend bool operator==(const iterator&, const iterator&) = default;

    private:
        std::size_t number_ = 0;
    };
    using const_iterator = iterator;

    EpochNumbers(std::size_t first, std::size_t end) : first_{first < end ? first : end}, end_{end} {}
    iterator begin() const { return iterator{first_}; }
    iterator end() const { return iterator{end_}; }
    std::size_t size() const { return end_ - first_; }
    bool empty() const { return first_ == end_; }

private:
    std::size_t first_, end_;
};

}  // namespace hvd
