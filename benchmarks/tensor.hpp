// The tensor class of the benchmarks: floats in memory of its own, or in memory that hvd gives it.
#pragma once

#include <hvd/hvd.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace bench {

class Tensor {
public:
    explicit Tensor(std::size_t n) : own_(n), data_{own_.data()}, size_{n} {}
    Tensor(Tensor&& other) noexcept
        : own_{std::move(other.own_)},
          data_{std::exchange(other.data_, nullptr)},
          size_{std::exchange(other.size_, 0)} {}
    Tensor& operator=(Tensor&&) = delete;

    float* data() { return data_; }
    std::size_t size() const { return size_; }
    std::span<float> elements() { return {data_, size_}; }
    void live_in(float* storage) {
        data_ = storage;
        own_ = {};
    }

private:
    std::vector<float> own_;
    float* data_;
    std::size_t size_;
};

}  // namespace bench

template <>
struct hvd::tensor_traits<bench::Tensor> {
    using value_type = float;
    static float* data(bench::Tensor& t) { return t.data(); }
    static std::size_t size(const bench::Tensor& t) { return t.size(); }
    static void rebind(bench::Tensor& t, float* storage) { t.live_in(storage); }
};
