// Reducer: one contiguous buffer reduced over all ranks, with what averages and scale factors do before and after.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <hvd/comm/adasum.hpp>
#include <hvd/comm/communicator.hpp>
#include <hvd/core/kernels.hpp>

namespace hvd {

namespace detail {

/// Scaling means something for this element type.
template <class E>
concept Scalable = BuiltinScalar<E> && !std::same_as<E, bool>;

/// Integers are averaged in double, so that the sum of many small ones does not wrap.
template <class E, class Op>
inline constexpr bool averages_in_double = std::same_as<Op, Average>&& std::integral<E>;

/// The operation that algorithms see: an average is a sum to them.
template <class Op>
using Carried = std::conditional_t<std::same_as<Op, Average>, Sum, Op>;

template <class Op>
Carried<Op> carried(const Op& op) {
    if constexpr (std::same_as<Carried<Op>, Op>) return op;
    else return {};
}

/// What is done to the elements before they are reduced, and to the result.
template <Scalar E, class Op>
class Rescale {
public:
    static constexpr bool is_average = std::same_as<Op, Average>;
    /// The element type that is reduced.
    using Wide = std::conditional_t<averages_in_double<E, Op>, double, E>;

    Rescale(ReduceOptions options, int size) : before_{options.prescale}, after_{options.postscale}, size_(size) {
        if constexpr (is_average && Float16Scalar<E>) {
            // The sum of many would overflow before it is divided; a power of two loses nothing.
            const auto power = static_cast<double>(std::size_t{1} << ceil_log2(size));
            before_ /= power;
            after_ *= power / size;
        }
    }

    /// `before` does nothing but copy.
    bool leaves_inputs() const { return !averages_in_double<E, Op> && before_ == 1; }

    /// `out` may be `in`.
    void before(Wide* out, const E* in, std::size_t n) const {
        if constexpr (averages_in_double<E, Op>) {
            for (std::size_t i = 0; i < n; ++i)
                out[i] = static_cast<double>(before_ == 1 ? in[i] : truncate<E>(before_ * static_cast<double>(in[i])));
        } else {
            if constexpr (Scalable<E>) {
                if (before_ != 1) return scale(out, in, n, before_);
            }
            if (out != in && n > 0) std::memcpy(static_cast<void*>(out), in, n * sizeof(E));
        }
    }

    /// `out` may be `in`.
    void after(E* out, const Wide* in, std::size_t n) const {
        if constexpr (averages_in_double<E, Op>) {
            for (std::size_t i = 0; i < n; ++i) out[i] = truncate<E>(in[i] / size_ * after_);
        } else {
            if constexpr (is_average && !Float16Scalar<E>) {
                if (size_ > 1) {
                    divide(out, in, n, size_);
                    if (after_ != 1) scale(out, out, n, after_);
                    return;
                }
            }
            if constexpr (Scalable<E>) {
                if (after_ != 1) return scale(out, in, n, after_);
            }
            if (out != in && n > 0) std::memcpy(static_cast<void*>(out), in, n * sizeof(E));
        }
    }

private:
    double before_, after_, size_;
};

/// Reduces `data` in place. Whoever runs it has the turn (see Turn), where the algorithm needs one.
template <class T, class A, Scalar E, class Op>
class Reducer final : public Operation {
public:
    Reducer(const Communicator<T, A>& comm, Channel<T> channel, std::span<E> data, const Op& op, ReduceOptions options)
        : comm_{comm}, channel_{channel}, data_{data}, op_{carried(op)}, rescale_{options, comm.size()} {}

    bool advance() override {
        if (!begun_) {
            begun_ = true;
            begin();
        }
        if (run_ && !run_->advance()) return false;
        run_.reset();
        if (!finish_.is_taken) rescale_.after(data_.data(), wide_data(), data_.size());
        return true;
    }

    int waiting_for() const override { return run_ ? run_->waiting_for() : -1; }

private:
    using Wide = typename Rescale<E, Op>::Wide;

    Wide* wide_data() const {
        if constexpr (averages_in_double<E, Op>) return reinterpret_cast<double*>(wide_.data());
        else return data_.data();
    }

    void begin() {
        const std::size_t n = data_.size();
        if constexpr (averages_in_double<E, Op>) wide_ = Loan{comm_.context().pool, n * sizeof(double)};
        rescale_.before(wide_data(), data_.data(), n);
        if (comm_.size() == 1 || n == 0) return;
        const std::span<Wide> buffer{wide_data(), n};
        if constexpr (std::same_as<Op, Adasum>) {
            run_ = std::make_unique<AdasumRun<T, E>>(channel_, buffer, comm_.context().pool);
        } else {
            if constexpr (!averages_in_double<E, Op>) {
                finish_.how = &rescale_;
                finish_.apply = [](void* x, std::size_t count, const void* how) {
                    static_cast<const Rescale<E, Op>*>(how)->after(static_cast<E*>(x), static_cast<E*>(x), count);
                };
            }
            run_ = start_algorithm(comm_.algorithm(), channel_, comm_.algorithm_state(), buffer, op_,
                                   finish_.apply != nullptr ? &finish_ : nullptr);
        }
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    std::span<E> data_;
    Carried<Op> op_;
    Rescale<E, Op> rescale_;
    Loan wide_;
    Finish finish_;
    bool begun_ = false;
    std::unique_ptr<Operation> run_;
};

}  // namespace detail
}  // namespace hvd
