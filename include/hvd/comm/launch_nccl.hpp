// Workers with a GPU each: those of the bootstrap transport, whose body gets a world on devices.
#pragma once

#include <type_traits>
#include <utility>

#include <hvd/comm/communicator.hpp>
#include <hvd/transport/launch_options.hpp>
#include <hvd/transport/nccl.hpp>

namespace hvd::detail {

/// The bootstrap of an hvd::Nccl; void of others.
template <class T>
struct NcclBootstrap {
    using type = void;
};
template <class Bootstrap, bool Enabled>
struct NcclBootstrap<Nccl<Bootstrap, Enabled>> {
    using type = Bootstrap;
};

/// The body of the bootstrap's workers: calls the user's with the world on devices, whose calls have all been done when it
/// returns.
template <class T, class A, class F>
class OnDevices {
public:
    OnDevices(F& body, const LaunchOptions& options) : body_{body}, options_{options} {}

    template <class B, class Any>
    void operator()(const Communicator<B, Any>& host) {
        Communicator<T, A> world{T{host.transport()}, A{}, CommunicatorOptions{options_.checks}};
        world.context().state = host.context().state;
        const auto guard = world.transport().device_guard();
        body_(world);
        const auto end = world.transport().finish();
        complete(world, *end, "the end of the body");
    }

private:
    F& body_;
    const LaunchOptions& options_;
};

}  // namespace hvd::detail
