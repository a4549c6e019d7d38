// GradientSlot: what the optimizer keeps for one gradient: its request, its sum over several backward passes, its wire form.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/core/kernels.hpp>
#include <hvd/engine/engine.hpp>

namespace hvd {

/// How the gradients of the workers become one.
enum class Reduction { Average, Sum, Adasum };

namespace detail {

/// The gradient's elements are given to each call anew. One slot is used by one thread.
template <class Comm>
class GradientSlot {
public:
    explicit GradientSlot(std::string name) : name_{std::move(name)} {}
    virtual ~GradientSlot() = default;

    const std::string& name() const { return name_; }
    bool is_announced() const { return is_announced_; }

    /// sum += weight * gradient
    virtual void accumulate(const void* data, std::size_t n, double weight) = 0;
    /// gradient = (sum + weight * gradient) / divisor; the sum is empty afterwards.
    virtual void conclude(void* data, std::size_t n, double weight, double divisor) = 0;
    virtual void clear(void* data, std::size_t n) = 0;
    /// Begins the reduction. `place` is that in a bound buffer, plus one, or 0.
    virtual void begin(Engine<Comm>& engine, void* data, std::size_t n, Reduction op, std::uint64_t place) = 0;
    /// Waits for it; the gradient holds the result. Returns how many finite elements became infinite on the wire.
    virtual std::size_t end(void* data, std::size_t n) = 0;

protected:
    bool is_announced_ = false;
    Request request_;

private:
    std::string name_;
};

/// What gradients of several backward passes come to, in host memory.
template <Scalar E>
class GradientSum {
public:
    void accumulate(const void* data, std::size_t n, double weight) {
        const auto* gradient = static_cast<const E*>(data);
        if (sum_.size() != n) sum_.assign(n, E{});
        if (weight == 0) return;  // whatever an empty batch left there
        if (weight == 1) return reduce_pair(sum_.data(), sum_.data(), gradient, n, sum);
        scaled_.resize(n);
        scale(scaled_.data(), gradient, n, weight);
        reduce_pair(sum_.data(), sum_.data(), scaled_.data(), n, sum);
    }

    void conclude(void* data, std::size_t n, double weight, double divisor) {
        auto* gradient = static_cast<E*>(data);
        if (weight == 0) clear(data, n);
        else if (weight != 1) scale(gradient, gradient, n, weight);
        if (sum_.size() == n) reduce_pair(gradient, sum_.data(), gradient, n, sum);
        sum_.clear();
        if (divisor != 1) divide(gradient, gradient, n, divisor);
    }

    void clear(void* data, std::size_t n) {
        auto* gradient = static_cast<E*>(data);
        for (std::size_t i = 0; i < n; ++i) gradient[i] = E{};
    }

private:
    std::vector<E> sum_, scaled_;
};

template <class Comm, Scalar E, class Compression>
class TypedGradientSlot final : public GradientSlot<Comm> {
    using Base = GradientSlot<Comm>;
    using Wire = typename Compression::template wire_type<E>;
    static constexpr bool compresses = !std::same_as<Wire, E>;

public:
    using Base::Base;

    void accumulate(const void* data, std::size_t n, double weight) override { sum_.accumulate(data, n, weight); }
    void conclude(void* data, std::size_t n, double weight, double divisor) override {
        sum_.conclude(data, n, weight, divisor);
    }
    void clear(void* data, std::size_t n) override { sum_.clear(data, n); }

    void begin(Engine<Comm>& engine, void* data, std::size_t n, Reduction op, std::uint64_t place) override {
        std::span<Wire> wire;
        if constexpr (compresses) {
            wire_.resize(n);
            convert(wire_.data(), static_cast<const E*>(data), n);
            wire = wire_;
            place = 0;
        } else {
            wire = {static_cast<E*>(data), n};
        }
        switch (op) {
            case Reduction::Average:
                this->request_ = engine.allreduce_bound(this->name(), wire, average, place);
                break;
            case Reduction::Sum:
                this->request_ = engine.allreduce_bound(this->name(), wire, sum, place);
                break;
            case Reduction::Adasum:
                if constexpr (ReduceOperation<Adasum, Wire>)
                    this->request_ = engine.allreduce(this->name(), wire, adasum);
                break;
        }
        this->is_announced_ = true;
    }

    std::size_t end(void* data, std::size_t n) override {
        this->is_announced_ = false;
        this->request_.wait();
        std::size_t overflows = 0;
        if constexpr (compresses) {
            auto* gradient = static_cast<E*>(data);
            for (std::size_t i = 0; i < n; ++i) {
                const auto value = static_cast<float>(wire_[i]);
                const bool was_finite = gradient[i] - gradient[i] == E{};
                if (was_finite && value - value != 0.0f) ++overflows;
            }
            convert(gradient, wire_.data(), n);
        }
        return overflows;
    }

private:
    GradientSum<E> sum_;
    std::vector<Wire> wire_;
};

}  // namespace detail
}  // namespace hvd
