// An allreduce algorithm that is one of several, chosen when the program runs. In hvd algorithms are types; this one type
// holds any of them, so that the training is compiled once and not for each.
#pragma once

#include <hvd/hvd.hpp>  // hvd

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

namespace fashion {

template <class... Algorithms>
struct OneOf {
    static constexpr std::string_view name = "one of several";

    std::variant<Algorithms...> choice{};

    /// Picks the algorithm of this name.
    static OneOf named(std::string_view wanted) {
        OneOf one;
        const bool found = ((wanted == Algorithms::name ? (one.choice = Algorithms{}, true) : false) || ...);
        if (!found) throw std::runtime_error{"there is no algorithm " + std::string{wanted}};
        return one;
    }

    template <hvd::Transport T>  // hvd
    using State = std::tuple<std::optional<decltype(std::declval<const Algorithms&>().prepare(std::declval<T&>()))>...>;

    /// What the chosen one prepares; nothing for the others.
    template <hvd::Transport T>  // hvd
    State<T> prepare(T& transport) const {
        State<T> state;
        each([&]<std::size_t I>(const auto& algorithm) { std::get<I>(state).emplace(algorithm.prepare(transport)); });
        return state;
    }

    template <hvd::Transport T, hvd::Scalar E, class Op>                                         // hvd
    void run(hvd::Channel<T> channel, State<T>& state, std::span<E> data, const Op& op) const {  // hvd
        each([&]<std::size_t I>(const auto& algorithm) { algorithm.run(channel, *std::get<I>(state), data, op); });
    }

private:
    /// Calls `f<I>(algorithm)` for the chosen one, which is number I.
    template <class F>
    void each(F&& f) const {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            ((choice.index() == I ? f.template operator()<I>(*std::get_if<I>(&choice)) : void()), ...);
        }
        (std::index_sequence_for<Algorithms...>{});
    }
};

using Chosen = OneOf<hvd::Auto, hvd::Ring, hvd::Tree, hvd::HalvingDoubling, hvd::Direct, hvd::Native,  // hvd
                     hvd::Hierarchical<hvd::Direct, hvd::Ring>>;                                       // hvd

}  // namespace fashion
