// What hvd asks of a model and of an optimizer, and the sentences for those that lack it.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/core/explain.hpp>
#include <hvd/core/tensor_list.hpp>

namespace hvd {
namespace detail {

template <class M>
concept HasParameters = requires(M& m) {
    { m.parameters() } -> TensorList;
};

template <class M>
concept HasGradients = requires(M& m) {
    { m.gradients() } -> TensorList;
};

template <class M>
concept HasParameterNames = requires(M& m) {
    { std::size(m.parameter_names()) } -> std::convertible_to<std::size_t>;
    std::string{*std::begin(m.parameter_names())};
};

template <class O>
concept HasState = requires(O& o) {
    { o.state() } -> TensorList;
};

}  // namespace detail

/// `parameters()` and `gradients()` each return a TensorList, of equal lengths: gradient i belongs to parameter i. A
/// gradient is the mean over the samples of the rank's batch. Optional: `parameter_names()`, a range of strings.
template <class M>
concept Model = detail::HasParameters<M> && detail::HasGradients<M>;

/// `step(model)` changes the parameters by the gradients. Optional: `state()`, a TensorList (momentum and the like) that
/// broadcasts, checkpoints and recovery carry along.
template <class O, class M>
concept Optimizer = requires(O& o, M& m) {
    o.step(m);
};

namespace detail {

template <class M>
consteval bool explain_model() {
    if constexpr (Model<M>) {
        return true;
    } else if constexpr (!requires(M & m) { m.parameters(); }) {
        static_assert(never<M>,
                      "hvd: this model has no parameters(); add it: auto parameters() { return std::tie(w, b); }");
    } else if constexpr (!HasParameters<M>) {
        static_assert(
            never<M>,
            "hvd: parameters() of this model returns no list of tensors; return std::tie(w, b) or a range, and "
            "specialise hvd::tensor_traits for tensor classes of your own");
    } else if constexpr (!requires(M & m) { m.gradients(); }) {
        static_assert(never<M>,
                      "hvd: this model has no gradients(); add it: auto gradients() { return std::tie(dw, db); }");
    } else {
        static_assert(
            never<M>,
            "hvd: gradients() of this model returns no list of tensors; return std::tie(dw, db) or a range, and "
            "specialise hvd::tensor_traits for tensor classes of your own");
    }
    return false;
}

template <class O, class M>
consteval bool explain_optimizer() {
    if constexpr (Optimizer<O, M>) {
        return true;
    } else {
        static_assert(never<O>, "hvd: this optimizer has no step(model); add void step(Model& model)");
        return false;
    }
}

/// The sentence for a model whose gradients do not fit its parameters, or nothing.
template <class M>
std::string model_error(M& model) {
    std::vector<std::size_t> sizes;
    for_each_tensor(model.parameters(), [&](auto& p, std::size_t) { sizes.push_back(size_of(p)); });
    std::size_t count = 0;
    std::string error;
    for_each_tensor(model.gradients(), [&](auto& g, std::size_t i) {
        ++count;
        if (error.empty() && i < sizes.size() && size_of(g) != sizes[i])
            error = "hvd: gradient " + std::to_string(i) + " has " + std::to_string(size_of(g)) +
                    " elements and its parameter " + std::to_string(sizes[i]) + "; make them equal";
    });
    if (count != sizes.size())
        error = "hvd: the model has " + std::to_string(sizes.size()) + " parameters and " + std::to_string(count) +
                " gradients; give one gradient per parameter, in the same order";
    return error;
}

}  // namespace detail
}  // namespace hvd
