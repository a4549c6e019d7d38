// The learning rate for many workers.
#pragma once

#include <cmath>
#include <concepts>

namespace hvd {

/// How the rate grows with the number of workers, and so with the global batch.
enum class RateRule {
    Linear,      ///< times p; Goyal et al., "Accurate, large minibatch SGD", 2017
    SquareRoot,  ///< times sqrt(p); Krizhevsky, "One weird trick", 2014; usual for Adam
    None         ///< as it is
};

/// The rate for all workers of `world` that corresponds to `base` for one.
template <std::floating_point R, class World>
R scale_rate(R base, const World& world, RateRule rule = RateRule::Linear) {
    const auto p = static_cast<R>(world.size());
    switch (rule) {
        case RateRule::Linear:
            return base * p;
        case RateRule::SquareRoot:
            return base * std::sqrt(p);
        case RateRule::None:
            break;
    }
    return base;
}

}  // namespace hvd
