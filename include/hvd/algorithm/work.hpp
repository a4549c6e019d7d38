// Work: the data of an allreduce handed to an algorithm, with their types or without.
#pragma once

#include <memory>
#include <span>

#include <hvd/algorithm/algorithm.hpp>

namespace hvd::detail {

/// For algorithms that must know the types.
template <Scalar E, class Op>
struct TypedWork {
    std::span<E> data;
    const Op& op;
    std::size_t size() const { return data.size(); }
    E* begin() const { return data.data(); }
    Fold fold() const { return Fold::of<E>(op); }
    template <class A, Transport T>
    std::unique_ptr<Operation> start(const A& a, Channel<T> c, AlgorithmState<A, T>& s, std::size_t at,
                                     std::size_t n) const {
        return start_algorithm(a, c, s, data.subspan(at, n), op);
    }
};
struct FoldWork {
    std::byte* data;
    std::size_t n;
    Fold folds;
    std::size_t size() const { return n; }
    void* begin() const { return data; }
    Fold fold() const { return folds; }
    template <class A, Transport T>
    std::unique_ptr<Operation> start(const A& a, Channel<T> c, AlgorithmState<A, T>& s, std::size_t at,
                                     std::size_t count) const {
        return a.start_fold(c, s, data + at * folds.element(), count, folds.then(nullptr));  // a part of the whole
    }
};

}  // namespace hvd::detail
