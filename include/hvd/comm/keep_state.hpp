// Gives a communicator the state of its job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <hvd/comm/communicator.hpp>
#include <hvd/elastic/state_registry.hpp>
#include <hvd/transport/launch_options.hpp>

namespace hvd::detail {

/// The user's callback, if this start of the job goes on from a commit after deaths.
inline void tell_of_recovery(const LaunchOptions& options, const StateSetting& setting) {
    if (!options.on_recovery || setting.life < 2 || !setting.saved) return;
    options.on_recovery({setting.workers, setting.saved->workers, setting.saved->sequence});
}

/// Local. Commits are from now on collective calls on `world`, kept as `setting` says.
template <class T, class A>
void keep_state(const Communicator<T, A>& world, StateSetting setting) {
    Context<T>& context = world.context();
    context.state = std::make_shared<StateRegistry>(std::move(setting));
    context.state->agree_by([&context](std::uint64_t signature, const std::string& words) {
        const Channel<T> channel = context.next_channel();
        Call call = Call::of("commit of the state");
        call.with(signature).words("(" + words + ")");
        Agreement<T> agreement{context, channel, std::move(call), Agreement<T>::Kind::Barrier};
        wait_for(agreement, channel, "commit of the state");
    });
}

}  // namespace hvd::detail
