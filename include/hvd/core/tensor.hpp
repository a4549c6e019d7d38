// What a tensor is: elements of one scalar type in one piece of memory, reached through `tensor_traits`.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include <hvd/core/memory.hpp>
#include <hvd/core/scalar.hpp>

namespace hvd {

/// The adapter of a tensor type, to be specialised in the header of that type:
/// `value_type`, `static value_type* data(T&)`, `static std::size_t size(const T&)`, and, where it makes sense,
/// `memory_space`, `static std::vector<std::size_t> shape(const T&)` (default {size}),
/// `static void resize(T&, std::span<const std::size_t> shape)`, `static void rebind(T&, value_type* storage)`,
/// `static constexpr bool is_view` (true when a copy refers to the same elements).
template <class T>
struct tensor_traits;

namespace detail {

template <class T>
concept ScalarRange = std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
    Scalar<std::remove_cv_t<std::ranges::range_value_t<T>>>;

}  // namespace detail

/// Contiguous ranges of scalars are tensors as they are.
template <class T>
    requires detail::ScalarRange<T>
struct tensor_traits<T> {
    using value_type = std::remove_cv_t<std::ranges::range_value_t<T>>;
    static constexpr bool is_view = std::ranges::enable_borrowed_range<T>;
    static constexpr auto* data(T& t) { return std::ranges::data(t); }
    static constexpr const value_type* data(const T& t) requires(!std::is_const_v<T> && detail::ScalarRange<const T>) {
        return std::ranges::data(t);
    }
    static constexpr std::size_t size(const T& t) { return static_cast<std::size_t>(std::ranges::size(t)); }
    static constexpr void resize(T& t, std::span<const std::size_t> shape) requires requires {
        t.resize(std::size_t{});
    }
    {
        std::size_t count = 1;
        for (std::size_t extent : shape) count *= extent;
        t.resize(count);
    }
};

namespace detail {

template <class T>
using TensorTraits = tensor_traits<std::remove_cvref_t<T>>;

template <class T>
concept HasTensorTraits = requires {
    typename TensorTraits<T>::value_type;
};

template <class T>
concept HasScalarElements = Scalar<typename TensorTraits<T>::value_type>;

template <class T>
concept HasData = requires(std::remove_cvref_t<T>& t) {
    { TensorTraits<T>::data(t) } -> std::convertible_to<const typename TensorTraits<T>::value_type*>;
};

template <class T>
concept HasSize = requires(std::remove_cvref_t<T>& t) {
    { TensorTraits<T>::size(t) } -> std::convertible_to<std::size_t>;
};

template <class T>
concept HasWritableData = requires(std::remove_cvref_t<T>& t) {
    { TensorTraits<T>::data(t) } -> std::convertible_to<typename TensorTraits<T>::value_type*>;
};

}  // namespace detail

/// A type whose objects are contiguous arrays of scalars, as they are or through `tensor_traits`.
template <class T>
concept Tensor = detail::HasTensorTraits<T> && detail::HasScalarElements<T> && detail::HasData<T> && detail::HasSize<T>;

/// A Tensor whose elements may be overwritten.
template <class T>
concept WritableTensor = Tensor<T> && detail::HasWritableData<T> && !std::is_const_v<std::remove_reference_t<T>>;

/// The element type of a Tensor.
template <class T>
using tensor_value_t = typename detail::TensorTraits<T>::value_type;

namespace detail {

template <class T>
struct MemorySpaceOf {
    using type = HostMemory;
};
template <class T>
    requires requires { typename TensorTraits<T>::memory_space; }
struct MemorySpaceOf<T> {
    using type = typename TensorTraits<T>::memory_space;
};

/// A view's copy refers to the same elements, so a temporary view may be written through; an owner's would be lost.
template <class T>
consteval bool is_view() {
    if constexpr (requires { TensorTraits<T>::is_view; }) return TensorTraits<T>::is_view;
    else return false;
}

template <class T>
inline constexpr bool is_owning_temporary = !std::is_lvalue_reference_v<T> && !is_view<T>();

template <class T>
concept Resizable = requires(std::remove_cvref_t<T>& t, std::span<const std::size_t> shape) {
    TensorTraits<T>::resize(t, shape);
};

/// Where to write. A constant view still refers to elements that can be written.
template <Tensor T>
tensor_value_t<T>* data_of(T& t) {
    if constexpr (std::is_const_v<T> && is_view<T>()) {
        std::remove_const_t<T> copy{t};
        return TensorTraits<T>::data(copy);
    } else {
        return TensorTraits<T>::data(t);
    }
}

/// Adapters that only know `data(T&)` serve constant tensors as well: nothing is written through this pointer.
template <Tensor T>
const tensor_value_t<T>* const_data_of(const T& t) {
    if constexpr (requires {
                      { TensorTraits<T>::data(t) } -> std::convertible_to<const tensor_value_t<T>*>;
                  }) {
        return TensorTraits<T>::data(t);
    } else {
        return TensorTraits<T>::data(const_cast<std::remove_cvref_t<T>&>(t));
    }
}

template <Tensor T>
std::size_t size_of(const T& t) {
    if constexpr (requires { TensorTraits<T>::size(t); }) return static_cast<std::size_t>(TensorTraits<T>::size(t));
    else return static_cast<std::size_t>(TensorTraits<T>::size(const_cast<std::remove_cvref_t<T>&>(t)));
}

template <Tensor T>
std::vector<std::size_t> shape_of(const T& t) {
    if constexpr (requires { TensorTraits<T>::shape(t); }) {
        const auto shape = TensorTraits<T>::shape(t);
        return std::vector<std::size_t>(std::begin(shape), std::end(shape));
    } else {
        return {size_of(t)};
    }
}

/// A tensor seen as rows: dimension 0 counts them, the other extents say how long one is.
struct Rows {
    std::size_t count = 0, width = 1;
    std::vector<std::size_t> trailing{};  // extents after the first

    std::vector<std::size_t> shape_with(std::size_t rows) const {
        std::vector<std::size_t> shape(trailing.size() + 1, rows);
        for (std::size_t i = 0; i < trailing.size(); ++i) shape[i + 1] = trailing[i];
        return shape;
    }
};

template <Tensor T>
Rows rows_of(const T& t) {
    Rows rows;
    if constexpr (requires { TensorTraits<T>::shape(t); }) {
        const std::vector<std::size_t> shape = shape_of(t);
        if (shape.empty()) return {size_of(t), 1, {}};
        rows.count = shape[0];
        rows.trailing.assign(shape.begin() + 1, shape.end());
        for (std::size_t extent : rows.trailing) rows.width *= extent;
    } else {
        rows.count = size_of(t);
    }
    return rows;
}

}  // namespace detail

/// The memory space of a Tensor: `tensor_traits<T>::memory_space`, or HostMemory.
template <Tensor T>
using memory_space_t = typename detail::MemorySpaceOf<T>::type;

}  // namespace hvd
