// A perceptron of plain loops: what takes the time that communication is to hide behind.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "tensor.hpp"

namespace bench {

/// Layers of in x out weights and out biases, with max(0, x) between them. Gradients are means over the batch.
class Perceptron {
public:
    Perceptron(std::vector<std::size_t> widths, std::size_t batch) : widths_{std::move(widths)}, batch_{batch} {
        std::mt19937 random{7};
        for (std::size_t l = 0; l < layers(); ++l) {
            const std::size_t in = widths_[l], out = widths_[l + 1];
            for (std::size_t n : {in * out, out}) {
                parameters_.emplace_back(n);
                gradients_.emplace_back(n);
            }
            std::normal_distribution<float> weight{0, std::sqrt(2.0f / static_cast<float>(in))};
            for (float& w : parameters_[2 * l].elements()) w = weight(random);
        }
        for (std::size_t width : widths_) {
            values_.emplace_back(batch_ * width);
            slopes_.emplace_back(batch_ * width);
        }
    }

    auto& parameters() { return parameters_; }
    auto& gradients() { return gradients_; }
    std::size_t layers() const { return widths_.size() - 1; }
    std::size_t count() const {
        std::size_t n = 0;
        for (const Tensor& t : parameters_) n += t.size();
        return n;
    }

    /// `x` has one row per sample.
    void forward(const std::vector<float>& x) {
        values_[0] = x;
        for (std::size_t l = 0; l < layers(); ++l) {
            const std::size_t in = widths_[l], out = widths_[l + 1];
            const float *w = parameters_[2 * l].data(), *b = parameters_[2 * l + 1].data();
            for (std::size_t n = 0; n < batch_; ++n) std::copy(b, b + out, values_[l + 1].data() + n * out);
            for (std::size_t i = 0; i < in; ++i)
                for (std::size_t n = 0; n < batch_; ++n)
                    add(values_[l + 1].data() + n * out, w + i * out, values_[l][n * in + i], out);
            if (l + 1 < layers())
                for (float& y : values_[l + 1]) y = std::max(y, 0.0f);
        }
    }

    /// Half the squared distance from `targets`. Calls `ready(i)` when gradient i is final, from the last layer on.
    template <class Ready>
    void backward(const std::vector<float>& targets, Ready&& ready) {
        std::vector<float>& last = slopes_.back();
        for (std::size_t i = 0; i < last.size(); ++i)
            last[i] = (values_.back()[i] - targets[i]) / static_cast<float>(batch_);
        for (std::size_t l = layers(); l-- > 0;) {
            const std::size_t in = widths_[l], out = widths_[l + 1];
            const float *x = values_[l].data(), *dy = slopes_[l + 1].data(), *w = parameters_[2 * l].data();
            float *dw = gradients_[2 * l].data(), *db = gradients_[2 * l + 1].data();
            std::fill(db, db + out, 0.0f);
            for (std::size_t n = 0; n < batch_; ++n) add(db, dy + n * out, 1, out);
            ready(2 * l + 1);
            for (std::size_t i = 0; i < in; ++i) {
                std::fill(dw + i * out, dw + (i + 1) * out, 0.0f);
                for (std::size_t n = 0; n < batch_; ++n) add(dw + i * out, dy + n * out, x[n * in + i], out);
            }
            ready(2 * l);
            if (l == 0) break;
            for (std::size_t i = 0; i < in; ++i)
                for (std::size_t n = 0; n < batch_; ++n)
                    slopes_[l][n * in + i] = x[n * in + i] > 0 ? dot(dy + n * out, w + i * out, out) : 0.0f;
        }
    }

private:
    static void add(float* y, const float* x, float factor, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) y[i] += factor * x[i];
    }

    /// In several sums, so that compilers may use vectors.
    static float dot(const float* a, const float* b, std::size_t n) {
        float sums[16] = {}, total = 0;
        std::size_t i = 0;
        for (; i + 16 <= n; i += 16)
            for (std::size_t k = 0; k < 16; ++k) sums[k] += a[i + k] * b[i + k];
        for (; i < n; ++i) total += a[i] * b[i];
        for (float s : sums) total += s;
        return total;
    }

    std::vector<std::size_t> widths_;
    std::size_t batch_;
    std::vector<Tensor> parameters_, gradients_;
    std::vector<std::vector<float>> values_, slopes_;  // by layer, the input first
};

/// Plain gradient descent.
struct Descent {
    float rate;
    void step(Perceptron& model) {
        for (std::size_t i = 0; i < model.parameters().size(); ++i) {
            float* w = model.parameters()[i].data();
            const float* g = model.gradients()[i].data();
            for (std::size_t k = 0; k < model.parameters()[i].size(); ++k) w[k] -= rate * g[k];
        }
    }
};

}  // namespace bench
