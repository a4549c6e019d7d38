// What a data set is, and how the rest of data/ reads one: by `size()` and `operator[]`, or by the rows of a tensor.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include <hvd/core/explain.hpp>
#include <hvd/core/tensor.hpp>

namespace hvd {
namespace detail {

template <class T>
concept HasSampleCount = requires(std::remove_reference_t<T>& set) {
    { set.size() } -> std::convertible_to<std::size_t>;
};

template <class T>
concept HasSamples = requires(std::remove_reference_t<T>& set, std::size_t i) {
    set[i];
    requires !std::is_void_v<decltype(set[i])>;
};

}  // namespace detail

/// A set of samples: `size()` counts them, `operator[](std::size_t)` gives one, by reference or by value.
template <class T>
concept Dataset = detail::HasSampleCount<T> && detail::HasSamples<T>;

namespace detail {

/// `set[i]` is a single number although the set has a shape: operator[] counts elements, not rows.
template <class T>
concept IndexedByElement = Dataset<T> && requires(std::remove_reference_t<T>& t, std::size_t i) {
    TensorTraits<T>::shape(t);
    requires std::same_as<std::remove_cvref_t<decltype(t[i])>, tensor_value_t<T>>;
};

/// A tensor that is read by rows. Ranges of scalars are not: their elements are the samples.
template <class T>
concept RowTensor =
    Tensor<std::remove_cv_t<T>> && !std::is_array_v<T> && (!Dataset<T> || IndexedByElement<std::remove_cv_t<T>>);

template <class Set>
consteval bool explain_dataset() {
    using Mutable = std::remove_const_t<Set>;
    if constexpr (Dataset<Set> || RowTensor<Set>) {
        return true;
    } else if constexpr (std::is_array_v<Set> || std::is_pointer_v<Mutable>) {
        static_assert(never<Set>,
                      "hvd: an array is no data set, since it has no size(); pass std::span{array} instead");
    } else if constexpr (Dataset<Mutable>) {
        static_assert(
            never<Set>,
            "hvd: this data set is const but its size() or operator[] is not; declare both const, or pass a set "
            "that is not const");
    } else if constexpr (HasSampleCount<Mutable>) {
        static_assert(never<Set>, "hvd: this data set lacks operator[](std::size_t), which returns a sample; add it");
    } else if constexpr (HasSamples<Mutable>) {
        static_assert(never<Set>, "hvd: this data set lacks size(), which returns the number of samples; add it");
    } else {
        static_assert(
            never<Set>,
            "hvd: this type is no data set; give it size() and operator[](std::size_t), or pass a std::vector of "
            "samples");
    }
    return false;
}

/// A reference to a data set, read the same way whatever it is. Copies refer to the same set.
/// The primary template is for types that the door refuses, so that no errors follow its sentence.
template <class Set>
class Source {
public:
    using reference = int;
    Source() = default;
    explicit Source(Set&) {}
    std::size_t size() const { return 0; }
    reference operator[](std::size_t) const { return 0; }
};

template <class Set>
    requires(Dataset<Set> && !RowTensor<Set>)
class Source<Set> {
public:
    using reference = decltype(std::declval<Set&>()[std::size_t{}]);
    Source() = default;
    explicit Source(Set& set) : set_{std::addressof(set)} {}
    std::size_t size() const { return static_cast<std::size_t>(set_->size()); }
    reference operator[](std::size_t i) const { return (*set_)[i]; }

private:
    Set* set_ = nullptr;
};

template <RowTensor Set>
class Source<Set> {
    using T = std::remove_const_t<Set>;
    static constexpr bool is_writable = !std::is_const_v<Set> && WritableTensor<Set>;

public:
    using reference = std::span<std::conditional_t<is_writable, tensor_value_t<T>, const tensor_value_t<T>>>;
    Source() = default;
    explicit Source(Set& set) : set_{std::addressof(set)} {
        const Rows rows = rows_of(static_cast<const T&>(set));
        count_ = rows.count;
        width_ = rows.width;
    }
    std::size_t size() const { return count_; }
    reference operator[](std::size_t i) const {
        if constexpr (is_writable) return {data_of(*set_) + i * width_, width_};
        else return {const_data_of(static_cast<const T&>(*set_)) + i * width_, width_};
    }

private:
    Set* set_ = nullptr;
    std::size_t count_ = 0, width_ = 0;
};

}  // namespace detail
}  // namespace hvd
