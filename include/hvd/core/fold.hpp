// Fold: a reduce operation on arrays without its types, so that what moves bytes is compiled once per transport.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include <hvd/core/kernels.hpp>
#include <hvd/core/op.hpp>

namespace hvd {

/// out[i] = op(a[i], b[i]) for elements of `element` bytes. Refers to `op`, which must outlive it.
class Fold {
public:
    Fold() = default;

    template <class T, class Op>
        requires ReduceOperation<Op, T>
    static Fold of(const Op& op) {
        Fold fold;
        fold.element_ = sizeof(T);
        fold.op_ = std::addressof(op);
        fold.pair_ = [](void* out, const void* a, const void* b, std::size_t n, const void* o) {
            detail::reduce_pair(static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b), n,
                                *static_cast<const Op*>(o));
        };
        return fold;
    }

    /// For schedules that only copy: elements of `bytes`, never folded.
    static Fold none(std::size_t bytes = 1) {
        Fold fold;
        fold.element_ = bytes;
        return fold;
    }

    /// Bytes of one element.
    std::size_t element() const { return element_; }

    /// `out` may be `a` or `b`.
    void operator()(void* out, const void* a, const void* b, std::size_t n) const { pair_(out, a, b, n, op_); }

private:
    std::size_t element_ = 1;
    const void* op_ = nullptr;
    void (*pair_)(void*, const void*, const void*, std::size_t, const void*) = nullptr;
};

}  // namespace hvd
