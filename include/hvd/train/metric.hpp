// Numbers about training, over all workers.
#pragma once

#include <concepts>
#include <span>
#include <type_traits>

#include <hvd/comm/allreduce.hpp>

namespace hvd {

/// The mean of `x` over all workers, as double for integers. Collective.
template <class T, class A, class X>
    requires std::is_arithmetic_v<X>
auto average_metric(const Communicator<T, A>& world, X x) {
    double mean = static_cast<double>(x);
    allreduce(world.host(), std::span<double>{&mean, 1}, average);
    if constexpr (std::floating_point<X>) return static_cast<X>(mean);
    else return mean;
}

}  // namespace hvd
