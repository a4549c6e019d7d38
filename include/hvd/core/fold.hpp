// Fold: a reduce operation on arrays without its types, so that what moves bytes is compiled once per transport.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include <hvd/core/kernels.hpp>
#include <hvd/core/op.hpp>

namespace hvd {

/// What remains to be done to every element of a result, such as the division of an average. An algorithm that has all
/// inputs of an element at once may do it there, while the element is in the cache, and says so.
struct Finish {
    void (*apply)(void* elements, std::size_t n, const void* how) = nullptr;
    const void* how = nullptr;
    bool is_taken = false;
};

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
            // All in one go, since a first one would overwrite an input that is `out`.
            constexpr std::size_t few = 64;
            const auto reduce = [&](const T** typed) {
                for (std::size_t i = 0; i < count; ++i) typed[i] = static_cast<const T*>(inputs[i]);
                detail::reduce_many(static_cast<T*>(out), typed, count, n, *static_cast<const Op*>(o));
            };
            if (count <= few) {
                const T* typed[few];
                reduce(typed);
            } else {
                reduce(std::make_unique<const T*[]>(count).get());
            }
        };
        fold.pair_ = [](void* out, const void* a, const void* b, std::size_t n, const void* o) {
            detail::reduce_pair(static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b), n,
                                *static_cast<const Op*>(o));
        };
        return fold;
    }

    /// With what follows; refers to `finish`, which must outlive it.
    Fold then(Finish* finish) const {
        Fold fold = *this;
        fold.finish_ = finish;
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
    /// them.
    void many(void* out, const void* const* inputs, std::size_t count, std::size_t n) const {
        many_(out, inputs, count, n, op_);
    }

    /// From now on whoever has this fold finishes every element of the result, once.
    void take_finish() const {
        if (finish_ != nullptr) finish_->is_taken = true;
    }
    void finish(void* elements, std::size_t n) const {
        if (finish_ != nullptr) finish_->apply(elements, n, finish_->how);
    }

private:
    std::size_t element_ = 1;
    const void* op_ = nullptr;
    Finish* finish_ = nullptr;
    void (*many_)(void*, const void* const*, std::size_t, std::size_t, const void*) = nullptr;
    void (*pair_)(void*, const void*, const void*, std::size_t, const void*) = nullptr;
};

}  // namespace hvd
