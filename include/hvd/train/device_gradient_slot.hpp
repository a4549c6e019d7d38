// DeviceGradientSlot: a gradient on a device. hvd::Nccl reduces it there; on host transports, and for what is done between
// backward passes, it comes to host memory and goes back.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <hvd/device/device_span.hpp>
#include <hvd/device/host_copy.hpp>
#include <hvd/train/gradient_slot.hpp>

namespace hvd::detail {

template <class Comm, Scalar E, class Compression, bool Enabled>
class DeviceGradientSlot final : public GradientSlot<Comm> {
    using Base = GradientSlot<Comm>;
    static constexpr bool is_reduced_on_device = DeviceTransport<typename Comm::transport_type>;
    static_assert(
        !is_reduced_on_device || std::same_as<typename Compression::template wire_type<E>, E>,
        "hvd: gradients are not compressed on hvd::Nccl; use NoCompression, and keep the gradients in 16 bits "
        "where they are to travel so");

public:
    explicit DeviceGradientSlot(std::string name) : Base{name}, on_host_{make_on_host(std::move(name))} {}

    void accumulate(const void* data, std::size_t n, double weight) override {
        fetch(data, n);
        on_host_.accumulate(host_->data(), n, weight);
    }
    void conclude(void* data, std::size_t n, double weight, double divisor) override {
        fetch(data, n);
        on_host_.conclude(host_->data(), n, weight, divisor);
        host_->give_back(data);
    }
    void clear(void* data, std::size_t n) override {
        make_room(n);
        on_host_.clear(host_->data(), n);
        host_->give_back(data);
    }
    void begin(Engine<Comm>& engine, void* data, std::size_t n, Reduction op, std::uint64_t place) override {
        if constexpr (is_reduced_on_device) {
            DeviceSpan<E> gradient{static_cast<E*>(data), n};
            switch (op) {
                case Reduction::Average:
                    this->request_ = engine.allreduce_bound(this->name(), gradient, average, place);
                    break;
                case Reduction::Sum:
                    this->request_ = engine.allreduce_bound(this->name(), gradient, sum, place);
                    break;
                case Reduction::Adasum:
                    if constexpr (ReduceOperation<Adasum, E>)
                        this->request_ = engine.allreduce(this->name(), gradient, adasum);
                    break;
            }
        } else {
            fetch(data, n);
            on_host_.begin(engine, host_->data(), n, op, 0);
        }
        this->is_announced_ = true;
    }
    std::size_t end(void* data, std::size_t n) override {
        this->is_announced_ = false;
        if constexpr (is_reduced_on_device) {
            this->request_.wait();
            return 0;
        } else {
            const std::size_t overflows = on_host_.end(host_->data(), n);
            host_->give_back(data);
            return overflows;
        }
    }

private:
    using OnHost = std::conditional_t<is_reduced_on_device, GradientSum<E>, TypedGradientSlot<Comm, E, Compression>>;

    static OnHost make_on_host([[maybe_unused]] std::string name) {
        if constexpr (is_reduced_on_device) return {};
        else return OnHost{std::move(name)};
    }
    void make_room(std::size_t n) {
        if (!host_ || host_->bytes != n * sizeof(E)) host_.emplace(n * sizeof(E));
    }
    void fetch(const void* data, std::size_t n) {
        make_room(n);
        host_->fetch(data);
    }

    OnHost on_host_;
    std::optional<device::HostCopy<Enabled>> host_;
};

/// The slot that is right for gradients of type X.
template <class Comm, class X, class Compression>
std::unique_ptr<GradientSlot<Comm>> make_gradient_slot(std::string name) {
    using E = tensor_value_t<X>;
    if constexpr (std::same_as<memory_space_t<X>, DeviceMemory>)
        return std::make_unique<DeviceGradientSlot<Comm, E, Compression, device::has_host_copy>>(std::move(name));
    else return std::make_unique<TypedGradientSlot<Comm, E, Compression>>(std::move(name));
}

}  // namespace hvd::detail
