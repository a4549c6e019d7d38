// Adasum: adaptive summation of whole tensors over recursive doubling. ceil(log2 p) messages of n bytes per rank.
// Maleki et al., "Scaling distributed training with adaptive summation", MLSys 2021.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <hvd/algorithm/recursive_doubling.hpp>
#include <hvd/algorithm/scratch.hpp>
#include <hvd/core/scalar.hpp>
#include <hvd/transport/channel.hpp>

namespace hvd::detail {

template <class E>
double largest_magnitude(const E* x, std::size_t n) {
    double largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const double v = static_cast<double>(x[i]), magnitude = v < 0 ? -v : v;
        if (!(magnitude <= largest)) largest = magnitude;
    }
    return largest;
}

/// out = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b. Vectors are scaled by their largest element, so that the products
/// neither overflow nor vanish.
template <class E>
void adasum_pair(E* out, const E* a, const E* b, std::size_t n) {
    const double scale_a = largest_magnitude(a, n), scale_b = largest_magnitude(b, n);
    double ab = 0, aa = 0, bb = 0;
    if (scale_a != 0 && scale_b != 0) {
        for (std::size_t i = 0; i < n; ++i) {
            const double x = static_cast<double>(a[i]) / scale_a, y = static_cast<double>(b[i]) / scale_b;
            ab += x * y;
            aa += x * x;
            bb += y * y;
        }
    }
    // What is taken off each vector, as a multiple of its scaled self.
    const double off_a = ab == 0 ? 0 : 0.5 * ab / aa * scale_b, off_b = ab == 0 ? 0 : 0.5 * ab / bb * scale_a;
    for (std::size_t i = 0; i < n; ++i) {
        const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        const double from_a = ab == 0 ? x : x - off_a * (x / scale_a), from_b = ab == 0 ? y : y - off_b * (y / scale_b);
        out[i] = static_cast<E>(from_a + from_b);
    }
}

template <Transport T, Scalar E>
class AdasumRun final : public Operation {
public:
    AdasumRun(Channel<T> channel, std::span<E> data, const std::shared_ptr<BlockPool>& pool)
        : channel_{channel},
          schedule_{channel.rank(), channel.size()},
          data_{data},
          loan_{pool, data.size_bytes()},
          other_{reinterpret_cast<E*>(loan_.data())} {}

    bool advance() override {
        const std::size_t n = data_.size(), bytes = data_.size_bytes();
        if (n == 0) return true;
        for (; step_ < schedule_.steps(); ++step_, begun_ = false) {
            const Step step = schedule_.step(step_);
            if (!begun_) {
                if (step.from >= 0) incoming_ = channel_.receive(step.from, step.fold ? other_ : data_.data(), bytes);
                if (step.to >= 0) outgoing_ = channel_.send(step.to, data_.data(), bytes);
                begun_ = true;
            }
            if (!channel_.test(incoming_) || !channel_.test(outgoing_)) return false;
            if (!step.fold) continue;
            const bool first = step.from < channel_.rank();  // the same order on both sides gives the same bits
            adasum_pair(data_.data(), first ? other_ : data_.data(), first ? data_.data() : other_, n);
        }
        return true;
    }

    int waiting_for() const override { return step_ < schedule_.steps() ? schedule_.step(step_).from : -1; }

private:
    Channel<T> channel_;
    RecursiveDoublingSchedule schedule_;
    std::span<E> data_;
    Loan loan_;
    E* other_;
    std::size_t step_ = 0;
    bool begun_ = false;
    typename T::Message incoming_, outgoing_;
};

}  // namespace hvd::detail
