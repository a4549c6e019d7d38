// DevicePath: how a collective moves its data when they lie on devices.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/comm/context.hpp>
#include <hvd/transport/device_transport.hpp>

namespace hvd::detail {

/// Made with the call: it keeps the call's turn, and what the rank's stream had before it. Nothing on host transports.
template <Transport T>
class DevicePath {
public:
    explicit DevicePath(const std::shared_ptr<Context<T>>&) {}
};

template <Transport T>
    requires DeviceTransport<T>
class DevicePath<T> {
public:
    explicit DevicePath(const std::shared_ptr<Context<T>>& context)
        : turn_{context, true}, transport_{context->transport}, after_{context->transport.fence()} {}

    std::unique_ptr<Operation> broadcast(Channel<T> channel, void* data, std::size_t bytes, int root) {
        return in_turn(transport_.device_broadcast(channel, after_, data, bytes, root));
    }
    /// Rank r's bytes go to `begin[r]` up to `begin[r + 1]`; those of this rank are at `in`.
    std::unique_ptr<Operation> allgather(Channel<T> channel, const void* in, std::byte* out,
                                         std::vector<std::size_t> begin) {
        return in_turn(transport_.device_allgather(channel, after_, in, out, std::move(begin)));
    }
    /// A parcel to oneself is a copy.
    std::unique_ptr<Operation> exchange(Channel<T> channel, std::string_view call, std::vector<DeviceParcel> sends,
                                        std::vector<DeviceParcel> receives) {
        return in_turn(transport_.device_exchange(channel, after_, call, std::move(sends), std::move(receives)));
    }
    /// Any other operation of the device, or one that goes through the host.
    std::unique_ptr<Operation> in_turn(std::unique_ptr<Operation> operation) {
        return std::make_unique<InTurn>(turn_, std::move(operation));
    }
    const std::vector<typename T::Fence>& after() const { return after_; }

private:
    class InTurn final : public Operation {
    public:
        InTurn(Turn<T>& turn, std::unique_ptr<Operation> run) : turn_{turn}, run_{std::move(run)} {}
        bool advance() override { return turn_.has_come() && run_->advance(); }
        int waiting_for() const override { return run_->waiting_for(); }

    private:
        Turn<T>& turn_;
        std::unique_ptr<Operation> run_;
    };

    Turn<T> turn_;
    T& transport_;
    std::vector<typename T::Fence> after_;
};

}  // namespace hvd::detail
