// Lists of tensors: a range of Tensors, or a tuple of Tensors of different types.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/core/tensor.hpp>

namespace hvd {
namespace detail {

template <class T>
concept TupleLike = requires {
    std::tuple_size<std::remove_cvref_t<T>>::value;
}
&&!std::ranges::range<T>;

template <class T>
consteval bool all_elements_are_tensors() {
    using U = std::remove_cvref_t<T>;
    return []<std::size_t... I>(std::index_sequence<I...>) { return (Tensor<std::tuple_element_t<I, U>> && ...); }
    (std::make_index_sequence<std::tuple_size_v<U>>{});
}

template <class T>
concept TensorTuple = TupleLike<T> && all_elements_are_tensors<T>();

template <class T>
concept TensorRange = std::ranges::input_range<T> && !Tensor<T> && Tensor<std::ranges::range_reference_t<T>>;

}  // namespace detail

/// A range of Tensors (`std::vector<my::Tensor>`) or a tuple of them (`std::tie(weights, bias)`).
template <class T>
concept TensorList = detail::TensorTuple<T> || detail::TensorRange<T>;

namespace detail {

/// Calls `f(tensor, index)` for each tensor in order.
template <TensorList L, class F>
void for_each_tensor(L&& list, F&& f) {
    if constexpr (TensorTuple<L>) {
        [&]<std::size_t... I>(std::index_sequence<I...>) { (f(std::get<I>(list), I), ...); }
        (std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<L>>>{});
    } else {
        std::size_t index = 0;
        for (auto&& tensor : list) f(tensor, index++);
    }
}

template <TensorList L>
std::size_t count_tensors(L&& list) {
    std::size_t count = 0;
    for_each_tensor(list, [&](auto&, std::size_t) { ++count; });
    return count;
}

/// The elements of each tensor as a list of spans, which needs the list itself no longer.
template <TensorList L>
auto views_of(L& list) {
    if constexpr (TensorTuple<L>) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return std::tuple{std::span{data_of(std::get<I>(list)), size_of(std::get<I>(list))}...};
        }
        (std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<L>>>{});
    } else {
        std::vector<std::span<tensor_value_t<std::ranges::range_reference_t<L>>>> views;
        for (auto&& tensor : list) views.emplace_back(data_of(tensor), size_of(tensor));
        return views;
    }
}

/// The numbers of the first two tensors of the list that share memory, or nothing. Lists whose tensors lie in order, as most
/// do, are not sorted.
template <TensorList L>
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(L&& list) {
    struct Stretch {
        std::uintptr_t begin, end;
        std::size_t index;
    };
    std::vector<Stretch> stretches;
    bool in_order = true;
    for_each_tensor(list, [&]<class X>(X& x, std::size_t i) {
        const auto begin = reinterpret_cast<std::uintptr_t>(data_of(x));
        const std::size_t bytes = size_of(x) * sizeof(tensor_value_t<X>);
        if (bytes == 0) return;
        in_order = in_order && (stretches.empty() || stretches.back().end <= begin);
        stretches.push_back({begin, begin + bytes, i});
    });
    if (in_order) return {};
    std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < stretches.size(); ++i) {
        const Stretch &a = stretches[i - 1], &b = stretches[i];
        if (b.begin < a.end) return std::pair{std::min(a.index, b.index), std::max(a.index, b.index)};
    }
    return {};
}

/// `Predicate<T>` holds for the type of every tensor in the list.
template <class L, template <class> class Predicate>
consteval bool every_tensor() {
    if constexpr (TensorTuple<L>) {
        using U = std::remove_cvref_t<L>;
        return []<std::size_t... I>(std::index_sequence<I...>) {
            return (Predicate<std::tuple_element_t<I, U>>::value && ...);
        }
        (std::make_index_sequence<std::tuple_size_v<U>>{});
    } else {
        return Predicate<std::ranges::range_reference_t<L>>::value;
    }
}

}  // namespace detail
}  // namespace hvd
