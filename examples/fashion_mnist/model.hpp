// A perceptron with ReLU between its layers and softmax cross-entropy at the end.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "multiply.hpp"
#include "tensor.hpp"

namespace fashion {

class Perceptron {
public:
    /// `widths`: inputs, hidden units..., classes.
    Perceptron(const std::vector<std::size_t>& widths, unsigned seed) : layers_{widths.size() - 1} {
        std::mt19937 random{seed};
        activations_.emplace_back(0, widths[0]);
        for (std::size_t l = 0; l < layers_; ++l) {
            const std::size_t in = widths[l], out = widths[l + 1];
            for (auto* list : {&parameters_, &gradients_}) {
                list->emplace_back(in, out);
                list->emplace_back(1, out);
            }
            const float bound = std::sqrt(6.0f / static_cast<float>(in));
            std::uniform_real_distribution<float> uniform{-bound, bound};
            Tensor& w = weights(l);
            for (float *p = w.row(0), *end = p + w.count(); p != end; ++p) *p = uniform(random);
            activations_.emplace_back(0, out);
            errors_.emplace_back(0, out);
        }
    }

    /// Weights and biases of each layer, in turn.
    std::vector<Tensor>& parameters() { return parameters_; }
    std::vector<Tensor>& gradients() { return gradients_; }

    /// Sets the gradients to those of the mean loss over the batch, which it returns.
    template <class Batch>
    double backward(const Batch& batch) {
        forward(batch);
        const double loss = softmax_errors(batch);
        for (std::size_t l = layers_; l-- > 0;) {
            multiply(Operand{activations_[l]}.transposed(), Operand{errors_[l]}, gradients_[2 * l]);
            sum_rows(errors_[l], gradients_[2 * l + 1]);
            if (l == 0) break;
            multiply(Operand{errors_[l]}, Operand{weights(l)}.transposed(), errors_[l - 1]);
            pass_where_positive(activations_[l], errors_[l - 1]);
        }
        return loss;
    }

    /// How many samples of the batch are classified rightly.
    template <class Batch>
    std::size_t count_correct(const Batch& batch) {
        forward(batch);
        const Tensor& scores = activations_[layers_];
        std::size_t correct = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const float* row = scores.row(i);
            const auto best = static_cast<std::size_t>(std::max_element(row, row + scores.cols()) - row);
            if (best == batch[i].label) ++correct;
        }
        return correct;
    }

private:
    Tensor& weights(std::size_t layer) { return parameters_[2 * layer]; }
    Tensor& biases(std::size_t layer) { return parameters_[2 * layer + 1]; }

    template <class Batch>
    void forward(const Batch& batch) {
        for (Tensor& t : activations_) t.set_rows(batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i) normalize(batch[i].pixels, activations_[0].row(i));
        for (std::size_t l = 0; l < layers_; ++l) {
            Tensor& out = activations_[l + 1];
            multiply(Operand{activations_[l]}, Operand{weights(l)}, out);
            const float* bias = biases(l).row(0);
            const float least = l + 1 < layers_ ? 0.0f : -INFINITY;
            for (std::size_t i = 0; i < out.rows(); ++i) {
                float* row = out.row(i);
                for (std::size_t j = 0; j < out.cols(); ++j) row[j] = std::max(row[j] + bias[j], least);
            }
        }
    }

    /// Bytes to numbers of about mean 0 and deviation 1; both figures are those of Fashion-MNIST.
    template <class Pixels>
    static void normalize(const Pixels& pixels, float* row) {
        constexpr float mean = 0.2860f, deviation = 0.3530f;
        for (std::size_t j = 0; j < pixels.size(); ++j)
            row[j] = (static_cast<float>(pixels[j]) * (1.0f / 255.0f) - mean) * (1.0f / deviation);
    }

    /// Fills the errors of the last layer; returns the mean loss.
    template <class Batch>
    double softmax_errors(const Batch& batch) {
        for (Tensor& t : errors_) t.set_rows(batch.size());
        const Tensor& scores = activations_[layers_];
        Tensor& errors = errors_[layers_ - 1];
        const float share = batch.size() == 0 ? 0.0f : 1.0f / static_cast<float>(batch.size());
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const float *in = scores.row(i), *end = in + scores.cols();
            float* out = errors.row(i);
            const float highest = *std::max_element(in, end);
            float sum = 0;
            for (std::size_t j = 0; j < scores.cols(); ++j) sum += out[j] = std::exp(in[j] - highest);
            const std::size_t label = batch[i].label;
            loss += static_cast<double>(std::log(sum) - (in[label] - highest));
            for (std::size_t j = 0; j < scores.cols(); ++j) out[j] *= share / sum;
            out[label] -= share;
        }
        return loss * static_cast<double>(share);
    }

    static void sum_rows(const Tensor& t, Tensor& sum) {
        float* to = sum.row(0);
        std::fill(to, to + t.cols(), 0.0f);
        for (std::size_t i = 0; i < t.rows(); ++i) {
            const float* row = t.row(i);
            for (std::size_t j = 0; j < t.cols(); ++j) to[j] += row[j];
        }
    }

    static void pass_where_positive(const Tensor& activation, Tensor& error) {
        const float* a = activation.row(0);
        float* e = error.row(0);
        for (std::size_t i = 0; i < error.count(); ++i) e[i] = a[i] > 0 ? e[i] : 0.0f;
    }

    std::size_t layers_;
    std::vector<Tensor> parameters_, gradients_;
    std::vector<Tensor> activations_, errors_;  // of the batch in hand
};

}  // namespace fashion
