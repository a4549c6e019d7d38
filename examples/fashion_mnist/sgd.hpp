// Stochastic gradient descent with momentum.
#pragma once

#include <vector>

#include "tensor.hpp"

namespace fashion {

struct Sgd {
    float rate;
    float momentum = 0.9f;
    std::vector<Tensor> velocity{};

    /// What belongs to the optimizer beside its settings: empty before the first step.
    std::vector<Tensor>& state() { return velocity; }

    template <class Model>
    void step(Model& model) {
        auto& parameters = model.parameters();
        const auto& gradients = model.gradients();
        if (velocity.empty())
            for (const Tensor& p : parameters) velocity.emplace_back(p.rows(), p.cols());
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            float *p = parameters[i].row(0), *v = velocity[i].row(0);
            const float* g = gradients[i].row(0);
            for (std::size_t j = 0, n = parameters[i].count(); j < n; ++j) {
                v[j] = momentum * v[j] + g[j];
                p[j] -= rate * v[j];
            }
        }
    }
};

}  // namespace fashion
