// Tensors without their types: rows that go in, and outputs whose length a collective finds out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/core/tensor.hpp>

namespace hvd::detail {

/// Rows in all; the most there can be when the sum is beyond it, so that no tensor has as many.
inline std::size_t sum_of(const std::vector<std::size_t>& counts) {
    constexpr std::size_t most = ~std::size_t{0};
    std::size_t sum = 0;
    for (std::size_t count : counts) sum = count > most - sum ? most : sum + count;
    return sum;
}

/// A tensor that a collective reads, as rows of one element type.
struct Input {
    const void* data;
    std::size_t size;  // elements
    ScalarInfo scalar;
    Rows rows;

    template <Tensor X>
    static Input of(const X& x) {
        return {const_data_of(x), size_of(x), scalar_info<tensor_value_t<X>>, rows_of(x)};
    }

    std::size_t bytes_of(std::size_t row_count) const { return row_count * rows.width * scalar.size; }
    const std::byte* row(std::size_t i) const { return static_cast<const std::byte*>(data) + bytes_of(i); }

    /// The sentence for an adapter whose shape and size contradict each other, or nothing.
    std::string error(std::string_view name, int rank, int ranks) const {
        if (rows.count * rows.width == size) return {};
        return located(std::string{name}, rank, ranks,
                       "tensor_traits says that the tensor has " + std::to_string(size) +
                           " elements, but its shape has " + std::to_string(rows.count * rows.width) +
                           "; mend shape() or size()");
    }
};

/// A tensor that a collective overwrites, and resizes where it can be. Where the elements are is looked up at the call and
/// when it is resized, so that a view may be gone before the collective ends; only what is resized must itself remain.
class Output {
public:
    template <class X>
    static Output of(X& x) {
        Output out;
        out.look_at(x);
        if constexpr (Resizable<X>) {
            out.object_ = const_cast<void*>(static_cast<const void*>(std::addressof(x)));
            out.resize_ = [](Output& self, const std::vector<std::size_t>& shape) {
                X& tensor = *static_cast<X*>(self.object_);
                TensorTraits<X>::resize(tensor, shape);
                self.look_at(tensor);
            };
        }
        return out;
    }

    /// Any elements of `element` bytes, as many as there are.
    static Output of_bytes(std::vector<std::byte>& bytes, std::size_t element) {
        Output out;
        out.object_ = &bytes;
        out.element_ = element;
        out.resize_ = [](Output& self, const std::vector<std::size_t>& shape) {
            auto& vector = *static_cast<std::vector<std::byte>*>(self.object_);
            self.size_ = count_of(shape);
            vector.resize(self.size_ * self.element_);
            self.data_ = vector.data();
        };
        return out;
    }

    void* data() const { return data_; }
    const Rows& rows() const { return rows_; }
    bool can_grow() const { return resize_ != nullptr; }

    /// Where the input may lie in memory of the output: so many elements behind its beginning, or nowhere.
    using Place = std::optional<std::ptrdiff_t>;

    /// Resizes to `shape`, or returns the sentence when a fixed output is too short for it, or when it shares memory with
    /// `in`, what this rank reads, other than in place.
    std::string make_room(const std::vector<std::size_t>& shape, const Input& in, Place place, std::string_view name,
                          int rank, int ranks) {
        const std::size_t count = count_of(shape);
        const bool resizes = resize_ != nullptr && (size_ != count || !has_shape(shape));
        if (overlaps(in, resizes ? size_ : std::min(size_, count)) && (resizes || !lies_at(place, in)))
            return located(std::string{name}, rank, ranks,
                           "the input and the output share memory; give a tensor of its own for the result");
        // What resizing throws must reach the other ranks, which wait for this one.
        std::string thrown;
        try {
            if (resizes) resize_(*this, shape);
        } catch (const std::exception& e) {
            thrown = std::string{" threw: "} + e.what();
        } catch (...) {
            thrown = " threw an exception that is no std::exception";
        }
        if (!thrown.empty())
            return located(std::string{name}, rank, ranks,
                           "resizing the output to " + std::to_string(count) + " elements" + thrown);
        if (size_ >= count) return {};
        return located(std::string{name}, rank, ranks,
                       "the output has room for " + std::to_string(size_) + " elements and the result has " +
                           std::to_string(count) + "; give it that many");
    }

private:
    template <class X>
    void look_at(X& x) {
        data_ = data_of(x);
        size_ = size_of(x);
        rows_ = rows_of(x);
    }

    bool overlaps(const Input& in, std::size_t count) const {
        const std::size_t own = count * in.scalar.size, other = in.size * in.scalar.size;
        const auto begin = reinterpret_cast<std::uintptr_t>(data_), at = reinterpret_cast<std::uintptr_t>(in.data);
        return own > 0 && other > 0 && at < begin + own && begin < at + other;
    }
    bool lies_at(Place place, const Input& in) const {
        if (!place) return false;
        const std::ptrdiff_t bytes = *place * static_cast<std::ptrdiff_t>(in.scalar.size);
        return reinterpret_cast<std::intptr_t>(in.data) == reinterpret_cast<std::intptr_t>(data_) + bytes;
    }

    static std::size_t count_of(const std::vector<std::size_t>& shape) {
        std::size_t count = 1;
        for (std::size_t extent : shape) count *= extent;
        return count;
    }

    bool has_shape(const std::vector<std::size_t>& shape) const {
        if (rows_.trailing.empty()) return true;  // length is all that it has
        return rows_.shape_with(rows_.count) == shape;
    }

    void* data_ = nullptr;
    std::size_t size_ = 0;  // elements
    Rows rows_{};
    void* object_ = nullptr;   // what is resized
    std::size_t element_ = 0;  // bytes, for of_bytes
    void (*resize_)(Output&, const std::vector<std::size_t>&) = nullptr;
};

}  // namespace hvd::detail
