// Tensors on devices over a transport of host memory: they are copied to the host, and the result is copied back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <hvd/comm/place.hpp>
#include <hvd/device/host_copy.hpp>
#include <hvd/transport/operation.hpp>

namespace hvd::detail {

/// The elements of a tensor on a device, in host memory; `Enabled` is device::has_host_copy.
template <class E, bool Enabled>
class HostTwin {
public:
    /// Waits for the copy. Refers to the tensor's elements.
    HostTwin(E* device, std::size_t n) : device_{device}, n_{n}, copy_{n * sizeof(E)} { copy_.fetch(device_); }
    std::span<E> elements() const { return {static_cast<E*>(copy_.data()), n_}; }
    void give_back() const { copy_.give_back(device_); }

private:
    E* device_;
    std::size_t n_;
    device::HostCopy<Enabled> copy_;
};

template <bool Enabled, Tensor X>
auto host_twin(X& x) {
    return HostTwin<tensor_value_t<X>, Enabled>{data_of(x), size_of(x)};
}

/// `f(host)` with a list of the same tensors in host memory, and its results copied back.
template <bool Enabled, class X, class F>
void with_host_twins(X& x, F&& f) {
    if constexpr (Tensor<X>) {
        const auto twin = host_twin<Enabled>(x);
        f(twin.elements());
        twin.give_back();
    } else if constexpr (TensorTuple<X>) {
        std::apply(
            [&](auto&... tensors) {
                const std::tuple twins{host_twin<Enabled>(tensors)...};
                std::apply(
                    [&](const auto&... twin) {
                        f(std::tuple{twin.elements()...});
                        (twin.give_back(), ...);
                    },
                    twins);
            },
            x);
    } else {
        using E = tensor_value_t<std::ranges::range_value_t<X>>;
        std::vector<HostTwin<E, Enabled>> twins;
        std::vector<std::span<E>> elements;
        for (auto& tensor : x) {
            twins.push_back(host_twin<Enabled>(tensor));
            elements.push_back(twins.back().elements());
        }
        f(elements);
        for (const auto& twin : twins) twin.give_back();
    }
}

/// An operation on host memory, and the copy back to the device.
template <class Twin>
class ByHost final : public Operation {
public:
    template <class Begin>
    ByHost(Twin twin, Begin&& begin) : twin_{std::move(twin)}, operation_{begin(twin_.elements())} {}
    bool advance() override {
        if (!operation_->advance()) return false;
        twin_.give_back();
        return true;
    }
    int waiting_for() const override { return operation_->waiting_for(); }

private:
    Twin twin_;
    std::unique_ptr<Operation> operation_;
};

}  // namespace hvd::detail
