// A batch: which samples of a set one worker uses in one step. It refers to the set and holds positions, no samples.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/data/dataset.hpp>

namespace hvd {
namespace detail {

/// Goes over the samples of a batch, which must outlive it.
template <class Set>
class BatchIterator {
public:
    using reference = typename Source<Set>::reference;
    using value_type = std::remove_cvref_t<reference>;
    using difference_type = std::ptrdiff_t;
    using pointer = std::add_pointer_t<reference>;
    using iterator_concept = std::random_access_iterator_tag;
    // before C++20 an iterator that gives values could only be an input iterator
    using iterator_category =
        std::conditional_t<std::is_reference_v<reference>, std::random_access_iterator_tag, std::input_iterator_tag>;

    BatchIterator() = default;
    BatchIterator(Source<Set> source, const std::size_t* index) : source_{source}, index_{index} {}

    reference operator*() const { return source_[*index_]; }
    pointer operator->() const requires std::is_reference_v<reference> { return std::addressof(source_[*index_]); }
    reference operator[](difference_type n) const { return source_[index_[n]]; }

    BatchIterator& operator++() { return ++index_, *this; }
    BatchIterator& operator--() { return --index_, *this; }
    BatchIterator operator++(int) { return {source_, index_++}; }
    BatchIterator operator--(int) { return {source_, index_--}; }
    BatchIterator& operator+=(difference_type n) { return index_ += n, *this; }
    BatchIterator& operator-=(difference_type n) { return index_ -= n, *this; }
    friend BatchIterator operator+(BatchIterator it, difference_type n) { return it += n; }
    friend BatchIterator operator+(difference_type n, BatchIterator it) { return it += n; }
    friend BatchIterator operator-(BatchIterator it, difference_type n) { return it -= n; }
    friend difference_type operator-(const BatchIterator& a, const BatchIterator& b) { return a.index_ - b.index_; }
    friend bool operator==(const BatchIterator& a, const BatchIterator& b) { return a.index_ == b.index_; }
    friend auto operator<=>(const BatchIterator& a, const BatchIterator& b) { return a.index_ <=> b.index_; }

private:
    Source<Set> source_;
    const std::size_t* index_ = nullptr;
};

}  // namespace detail

/// The samples of one step on one worker. May be copied and kept as long as the data set lives.
template <class Set>
class Batch {
public:
    using iterator = detail::BatchIterator<Set>;
    using const_iterator = iterator;
    using reference = typename iterator::reference;
    using value_type = typename iterator::value_type;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    Batch() = default;
    Batch(detail::Source<Set> source, std::vector<std::size_t> indices)
        : source_{source}, indices_{std::move(indices)} {}

    /// Samples in this batch on this worker; other workers may have more or fewer.
    std::size_t size() const { return indices_.size(); }
    bool empty() const { return indices_.empty(); }

    /// Sample `i` of the batch, as the set gives it.
    reference operator[](std::size_t i) const { return source_[indices_[i]]; }
    iterator begin() const { return {source_, indices_.data()}; }
    iterator end() const { return {source_, indices_.data() + indices_.size()}; }

    /// The positions of the samples in the whole set.
    const std::vector<std::size_t>& indices() const& { return indices_; }
    std::vector<std::size_t> indices() && { return std::move(indices_); }

private:
    detail::Source<Set> source_;
    std::vector<std::size_t> indices_;
};

}  // namespace hvd
