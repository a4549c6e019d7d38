// sparse_allreduce: rows of a large tensor, of which each rank has a few, added up over all ranks.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <hvd/comm/allgather.hpp>
#include <hvd/comm/allreduce.hpp>

namespace hvd {
namespace detail {

/// What the ranks find out about each other's rows in one short reduction with max.
struct SparseFacts {
    std::int64_t is_wrong = 0, width = 0, minus_width,
                 rows = 0;  // rows of the dense tensor: the greatest index plus one
};

/// The rows of all ranks in one list: sorted by index, equal ones added in the order of ranks.
template <class E>
void merge_rows(std::vector<std::int64_t>& indices, std::vector<E>& values, std::size_t width) {
    std::vector<std::size_t> order(indices.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return indices[a] < indices[b]; });
    std::vector<std::int64_t> merged;
    std::vector<E> sums;
    for (std::size_t i : order) {
        const E* row = values.data() + i * width;
        if (merged.empty() || merged.back() != indices[i]) {
            merged.push_back(indices[i]);
            sums.insert(sums.end(), row, row + width);
        } else {
            E* into = sums.data() + sums.size() - width;
            for (std::size_t k = 0; k < width; ++k) into[k] = Sum{}(into[k], row[k]);
        }
    }
    indices = std::move(merged);
    values = std::move(sums);
}

/// By way of the dense tensor: its sum, and which rows any rank has.
template <class T, class A, class E>
void sum_densely(const Communicator<T, A>& comm, std::vector<std::int64_t>& indices, std::vector<E>& values,
                 std::size_t width, std::size_t rows) {
    std::vector<E> dense(rows * width, E{});
    std::vector<std::uint8_t> has(rows, 0);
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto row = static_cast<std::size_t>(indices[i]);
        has[row] = 1;
        for (std::size_t k = 0; k < width; ++k)
            dense[row * width + k] = Sum{}(dense[row * width + k], values[i * width + k]);
    }
    allreduce(comm, dense, sum);
    allreduce(comm, has, max);
    indices.clear();
    values.clear();
    for (std::size_t row = 0; row < rows; ++row) {
        if (has[row] == 0) continue;
        indices.push_back(static_cast<std::int64_t>(row));
        for (std::size_t k = 0; k < width; ++k) values.push_back(dense[row * width + k]);
    }
}

}  // namespace detail

/// Row i of `values` belongs to row `indices[i]` of a large tensor that nobody stores. Afterwards every rank has in both the
/// rows that any rank had, each once, in ascending order, added up over all ranks (`average`: divided by their number).
/// Ranks may have any number of rows, also none, and a row more than once. Rows are gathered, or the tensor is made dense
/// and reduced, whichever is fewer bytes. Both tensors are resized. Collective. Throws UsageError for a negative index or
/// values that are no whole number of rows, MismatchError when rows differ in length between ranks.
template <class T, class A, class Indices, class Values, class Op = Sum>
void sparse_allreduce(const Communicator<T, A>& comm, Indices& indices, Values& values, const Op& = {}) {
    using I = tensor_value_t<Indices>;
    using E = tensor_value_t<Values>;
    static_assert(std::integral<I> && !std::same_as<I, bool>, "hvd: sparse_allreduce needs integers as indices");
    static_assert(detail::Resizable<Indices> && detail::Resizable<Values>,
                  "hvd: sparse_allreduce resizes its tensors; pass std::vectors, or add resize to tensor_traits");
    static_assert(std::same_as<Op, Sum> || std::same_as<Op, Average>,
                  "hvd: sparse_allreduce adds rows up: hvd::sum or hvd::average");
    const std::size_t n = detail::size_of(indices), length = detail::size_of(values);
    const std::size_t own_width = n == 0 ? 0 : length / n;
    std::vector<std::int64_t> all(n);
    detail::SparseFacts facts{};
    std::string error;
    for (std::size_t i = 0; i < n; ++i) {
        all[i] = static_cast<std::int64_t>(detail::const_data_of(indices)[i]);
        facts.rows = std::max(facts.rows, all[i] + 1);
        if (all[i] < 0) error = "index " + std::to_string(all[i]) + " is negative; count rows from 0";
    }
    if (own_width * n != length)
        error = std::to_string(length) + " values are no whole number of rows for " + std::to_string(n) +
                " indices; give a row per index";
    facts.is_wrong = error.empty() ? 0 : 1;
    facts.width = static_cast<std::int64_t>(own_width);
    facts.minus_width = n == 0 ? INT64_MIN : -facts.width;
    std::int64_t common[4] = {facts.is_wrong, facts.width, facts.minus_width, facts.rows};
    allreduce(comm, common, max);
    if (!error.empty()) throw UsageError{detail::located("sparse_allreduce", comm.rank(), comm.size(), error)};
    if (common[0] != 0)
        throw MismatchError{"hvd: sparse_allreduce: the call of another rank is wrong, so none was carried out"};
    if (common[2] != INT64_MIN && common[1] != -common[2])
        throw MismatchError{"hvd: sparse_allreduce: rows have from " + std::to_string(-common[2]) + " to " +
                            std::to_string(common[1]) + " elements; give rows of one length on all ranks"};
    const auto width = static_cast<std::size_t>(common[1]), rows = static_cast<std::size_t>(common[3]);
    std::uint64_t total = n;
    allreduce(comm, std::span<std::uint64_t>{&total, 1}, sum);

    std::vector<E> sums(detail::const_data_of(values), detail::const_data_of(values) + length);
    // An allgather brings each rank all rows once; an allreduce moves the dense tensor about twice.
    const double gathered = static_cast<double>(total) * static_cast<double>(width * sizeof(E) + sizeof(std::int64_t));
    const double dense = 2.0 * static_cast<double>(rows) * static_cast<double>(width * sizeof(E) + 1);
    if (gathered <= dense) {
        all = allgather(comm, all);
        sums = allgather(comm, sums);
        detail::merge_rows(all, sums, width);
    } else {
        detail::sum_densely(comm, all, sums, width, rows);
    }
    if constexpr (std::same_as<Op, Average>) detail::divide(sums.data(), sums.data(), sums.size(), comm.size());

    const std::vector<std::size_t> count{all.size()};
    detail::TensorTraits<Indices>::resize(indices, count);
    for (std::size_t i = 0; i < all.size(); ++i) detail::data_of(indices)[i] = static_cast<I>(all[i]);
    std::vector<std::size_t> shape{all.size(), width};
    if (detail::rows_of(values).trailing.size() > 1) shape = detail::rows_of(values).shape_with(all.size());
    detail::TensorTraits<Values>::resize(values, shape);
    std::copy(sums.begin(), sums.end(), detail::data_of(values));
}

}  // namespace hvd
