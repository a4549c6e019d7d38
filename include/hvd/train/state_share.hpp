// What a DistributedOptimizer adds to the state of a job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <ranges>
#include <string>
#include <type_traits>

#include <hvd/device/host_copy.hpp>
#include <hvd/elastic/state.hpp>
#include <hvd/elastic/state_object.hpp>
#include <hvd/train/model.hpp>

namespace hvd::detail {

/// The state of the optimizer has no elements, and nothing but a step of its own can give it some.
template <class Optimizer>
bool needs_first_step(Optimizer& optimizer) {
    auto&& list = optimizer.state();
    using List = std::remove_reference_t<decltype(list)>;
    std::size_t elements = 0, tensors = 0;
    bool is_resizable = true;
    for_each_tensor(list, [&]<class X>(X& tensor, std::size_t) {
        elements += size_of(tensor);
        is_resizable = is_resizable && Resizable<X>;
        ++tensors;
    });
    if constexpr (!TensorTuple<List>)
        is_resizable = Resizable<std::ranges::range_value_t<List>> && (GrowableList<List> || tensors > 0);
    return elements == 0 && !is_resizable;
}

/// The parameters of a model and the state of its optimizer, restored when they are added and committed when all
/// optimizers of the job have stepped. Does nothing where nobody keeps state.
class StateShare {
public:
    StateShare(State state, const std::string& name) : registry_{state.registry()} {
        if (registry_ != nullptr) name_ = name.empty() ? registry_->free_name("optimizer") : name;
    }
    StateShare(const StateShare&) = delete;
    StateShare& operator=(const StateShare&) = delete;
    ~StateShare() {
        if (!is_added_) return;
        registry_->remove_stepper(stepper_);
        const bool keeps = std::uncaught_exceptions() == exceptions_;
        registry_->remove(name_, keeps);
        registry_->remove(state_name(), keeps);
    }

    /// Both are referred to. Throws as StateRegistry::add does.
    template <class Model, class Optimizer>
    void add(Model& model, Optimizer& optimizer) {
        if (registry_ == nullptr) return;
        if constexpr (HasState<Optimizer>)
            if (registry_->saved_tensors(state_name()) > 0 && needs_first_step(optimizer)) make_state(model, optimizer);
        registry_->add(name_, tensor_list_object([&model]() -> decltype(auto) { return model.parameters(); }),
                       StateKind::Replicated);
        if constexpr (HasState<Optimizer>)
            registry_->add(state_name(),
                           tensor_list_object([&optimizer]() -> decltype(auto) { return optimizer.state(); }),
                           StateKind::Replicated);
        stepper_ = registry_->add_stepper(name_);
        is_added_ = true;
    }

    /// A backward pass has been added to a window.
    void passed() {
        if (registry_ != nullptr) registry_->note_activity();
    }
    /// Collective.
    void stepped() {
        if (registry_ != nullptr) registry_->stepped(stepper_);
    }

private:
    /// By a step with gradients of zero, whose effects are overwritten by what is restored.
    template <class Model, class Optimizer>
    static void make_state(Model& model, Optimizer& optimizer) {
        for_each_tensor(model.gradients(), [](auto& gradient, std::size_t) {
            using E = tensor_value_t<decltype(gradient)>;
            E* data = data_of(gradient);
            if constexpr (std::same_as<memory_space_t<decltype(gradient)>, DeviceMemory>) {
                const device::HostCopy<device::has_host_copy> zeros{size_of(gradient) * sizeof(E)};
                std::memset(zeros.data(), 0, zeros.bytes);
                zeros.give_back(data);
            } else {
                std::fill(data, data + size_of(gradient), E{});
            }
        });
        optimizer.step(model);
    }

    std::string state_name() const { return name_ + " state"; }

    StateRegistry* registry_;
    std::string name_;
    std::size_t stepper_ = 0;
    bool is_added_ = false;
    int exceptions_ = std::uncaught_exceptions();
};

}  // namespace hvd::detail
