// A model whose parameters count: parameter i says how often sample i was part of a committed step.
#pragma once

#include <cstddef>
#include <tuple>
#include <vector>

namespace hvd_test {

struct Ledger {
    std::vector<double> count, gradient;
    explicit Ledger(std::size_t samples) : count(samples), gradient(samples) {}
    auto parameters() { return std::tie(count); }
    auto gradients() { return std::tie(gradient); }

    // The gradient of a batch whose elements are the numbers of its samples.
    template <class Batch>
    void backward(const Batch& batch) {
        for (double& g : gradient) g = 0;
        for (const std::size_t sample : batch) gradient[sample] += 1;
    }
};

// Counts its steps, in state that is empty before the first.
struct Add {
    std::vector<double> steps;
    auto state() { return std::tie(steps); }
    void step(Ledger& ledger) {
        for (std::size_t i = 0; i < ledger.count.size(); ++i) ledger.count[i] += ledger.gradient[i];
        steps.resize(1);
        steps[0] += 1;
    }
};

}  // namespace hvd_test
