// Prefetcher: reads the next batches in the background while the present one is trained on.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/data/prefetch_threads.hpp>

namespace hvd {

struct PrefetchOptions {
    std::size_t threads = 1;  ///< that read at the same time; 0 reads in the caller
    std::size_t depth = 2;    ///< items that are read or being read ahead of the one in hand, at most; that much memory
};

/// A batch whose samples have been read: copies, in memory.
template <class Sample>
class LoadedBatch {
public:
    using value_type = Sample;
    using iterator = typename std::vector<Sample>::iterator;
    using const_iterator = typename std::vector<Sample>::const_iterator;

    LoadedBatch() = default;
    template <class Batch>
    explicit LoadedBatch(const Batch& batch) : indices_{batch.indices()} {
        samples_.reserve(batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i) samples_.push_back(batch[i]);
    }

    std::size_t size() const { return indices_.size(); }
    bool empty() const { return indices_.empty(); }
    decltype(auto) operator[](std::size_t i) { return samples_[i]; }
    decltype(auto) operator[](std::size_t i) const { return samples_[i]; }
    iterator begin() { return samples_.begin(); }
    iterator end() { return samples_.end(); }
    const_iterator begin() const { return samples_.begin(); }
    const_iterator end() const { return samples_.end(); }
    /// The positions of the samples in the whole set.
    const std::vector<std::size_t>& indices() const { return indices_; }

private:
    std::vector<Sample> samples_;
    std::vector<std::size_t> indices_;
};

namespace detail {

/// Reads the samples of a batch; anything else is taken as it is.
struct LoadSamples {
    template <class Item>
    auto operator()(Item&& item) const {
        if constexpr (requires { item.indices(); })
            return LoadedBatch<typename std::remove_cvref_t<Item>::value_type>{item};
        else return std::forward<Item>(item);
    }
};

}  // namespace detail

/// A range over `load(items[0])`, `load(items[1])`, ... in this order, read ahead by threads of its own:
/// `for (auto& batch : hvd::Prefetcher{data.epoch(e)})`, or with a function of yours that turns a batch into tensors.
/// `items` has `size()` and `operator[]`, as an Epoch and every Dataset have; an lvalue is referred to. It and `load` are
/// called from several threads at once. What a read throws is thrown when its item's turn comes; going on then gives
/// the items behind it. The position of a ShardedDataset counts what has been handed out, not what has been read.
/// The destructor waits for the reads under way.
template <class Items, class Load = detail::LoadSamples>
class Prefetcher {
public:
    using value_type = std::remove_cvref_t<decltype(std::declval<Load&>()(
        std::declval<std::remove_reference_t<Items>&>()[std::size_t{}]))>;

    class iterator {
    public:
        using value_type = Prefetcher::value_type;
        using reference = value_type&;
        using difference_type = std::ptrdiff_t;
        using pointer = value_type*;
        using iterator_category = std::input_iterator_tag;

        iterator() = default;
        explicit iterator(Prefetcher* owner) : owner_{owner} {}
        reference operator*() const { return *owner_->current_; }
        pointer operator->() const { return &*owner_->current_; }
        iterator& operator++() {
            if (!owner_->advance()) owner_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const iterator&, const iterator&) = default;

    private:
        Prefetcher* owner_ = nullptr;  // null at the end
    };

    explicit Prefetcher(Items&& items, PrefetchOptions options = {})
        : Prefetcher{std::forward<Items>(items), Load{}, options} {}

    /// Throws UsageError for a depth of zero.
    Prefetcher(Items&& items, Load load, PrefetchOptions options = {})
        : items_{std::forward<Items>(items)},
          load_{std::move(load)},
          loaded_(options.depth > 0 ? options.depth
                                    : throw UsageError{"hvd: Prefetcher: depth is 0, so nothing could be "
                                                       "read; let it read at least one item ahead"}),
          threads_{static_cast<std::size_t>(items_.size()), options.depth} {
        threads_.start(options.threads, &Prefetcher::read, this);
    }

    /// The next item, or nothing after the last. It is in the caller's hands until the next call.
    value_type* next() { return advance() ? &*current_ : nullptr; }

    /// Goes on where the last iteration, or `next`, stopped.
    iterator begin() { return iterator{advance() ? this : nullptr}; }
    iterator end() { return iterator{}; }

    /// Items in all.
    std::size_t size() const { return static_cast<std::size_t>(items_.size()); }

private:
    static void read(void* self, std::size_t item, std::size_t slot) {
        Prefetcher& p = *static_cast<Prefetcher*>(self);
        p.loaded_[slot].emplace(p.load_(p.items_[item]));
    }

    bool advance() {
        current_.reset();
        if (threads_.is_done()) return false;
        const std::size_t item = threads_.next_item();
        threads_.take_next([&](std::size_t slot) { current_ = std::exchange(loaded_[slot], std::nullopt); });
        if constexpr (requires { items_.use(item); }) items_.use(item);
        return true;
    }

    Items items_;
    Load load_;
    std::vector<std::optional<value_type>> loaded_;  // the slots
    std::optional<value_type> current_;
    detail::PrefetchThreads threads_;  // last, so that the threads end first
};

template <class Items>
Prefetcher(Items&&) -> Prefetcher<Items>;
template <class Items>
Prefetcher(Items&&, PrefetchOptions) -> Prefetcher<Items>;
template <class Items, class Load>
Prefetcher(Items&&, Load) -> Prefetcher<Items, Load>;
template <class Items, class Load>
Prefetcher(Items&&, Load, PrefetchOptions) -> Prefetcher<Items, Load>;

}  // namespace hvd
