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
        fold.many_ = [](void* out, const void* const* inputs, std::size_t count, std::size_t n, const void* o) {
            constexpr std::size_t most = 64;  // more in several goes
            const T* typed[most];
            for (std::size_t first = 0; first < count;) {
                std::size_t k = 0;
                if (first > 0) typed[k++] = static_cast<const T*>(out);
                while (k < most && first < count) typed[k++] = static_cast<const T*>(inputs[first++]);
                detail::reduce_many(static_cast<T*>(out), typed, k, n, *static_cast<const Op*>(o));
            }
        };
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

    /// out[i] = inputs[0][i] op inputs[1][i] op ..., from left to right; 16-bit floats are rounded once. `out` may be one of
    /// the first 64 inputs.
    void many(void* out, const void* const* inputs, std::size_t count, std::size_t n) const {
        many_(out, inputs, count, n, op_);
    }

private:
    std::size_t element_ = 1;
    const void* op_ = nullptr;
    void (*many_)(void*, const void* const*, std::size_t, std::size_t, const void*) = nullptr;
    void (*pair_)(void*, const void*, const void*, std::size_t, const void*) = nullptr;
};

}  // namespace hvd
