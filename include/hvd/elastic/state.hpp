// State: what `world.state()` gives: the state of the job, to which a program adds its own objects.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <hvd/elastic/state_registry.hpp>

namespace hvd {

/// The state of a job. In one that is not elastic and has no checkpoint all of this does nothing. A cheap handle.
class State {
public:
    explicit State(detail::StateRegistry* registry = nullptr) : registry_{registry} {}

    /// Somebody keeps what is committed.
    bool is_active() const { return registry_ != nullptr; }

    /// `object` (a Tensor, a TensorList, something trivially copyable or serializable) is part of what is committed from
    /// now on. It is referred to, and must live until it is removed or the body ends. If the job goes on from a commit that
    /// has an object of this name, it is restored at once. Every rank adds the same, in the same order, before the
    /// loop. Throws UsageError when the name is taken or the saved object is of another form.
    template <class X>
    void add(const std::string& name, X&& object, StateKind kind = StateKind::Replicated) {
        if constexpr (detail::explain_state<X>()) {
            if (registry_ == nullptr) return;
            if constexpr (std::is_lvalue_reference_v<X>) {
                registry_->add(name, detail::state_object(object), kind);
            } else {
                static_assert(
                    detail::TensorTuple<X> || detail::is_view<X>(),
                    "hvd: a temporary cannot be state of the job, since nothing of it is left to commit; give the "
                    "object a name");
                auto kept = std::make_shared<std::remove_cvref_t<X>>(std::move(object));
                detail::StateObject made = detail::state_object(*kept);
                registry_->add(name,
                               {[kept, made](detail::StateChunks& c) { made.save(c); },
                                [kept, made](detail::SavedReader& r) { made.load(r); }},
                               kind);
            }
        }
    }

    /// The object is part of later commits no more.
    void remove(const std::string& name) {
        if (registry_ != nullptr) registry_->remove(name, false);
    }

    /// All that has been added, with what hvd's own objects have added, is what a job that starts again goes on from. For
    /// loops without a DistributedOptimizer, whose `step()` commits. Collective; returns when the shares of all ranks are in.
    void commit() {
        if (registry_ != nullptr) registry_->commit();
    }

    /// The commits of the job so far, also of those before it started again.
    std::uint64_t commits() const { return registry_ == nullptr ? 0 : registry_->sequence(); }
    /// This body goes on from what an earlier one committed.
    bool is_restored() const { return registry_ != nullptr && registry_->is_restored(); }

    /// For hvd's own objects.
    detail::StateRegistry* registry() const { return registry_; }

private:
    detail::StateRegistry* registry_;
};

}  // namespace hvd
