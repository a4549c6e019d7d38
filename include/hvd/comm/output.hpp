// Tensors without their types: rows that go in, and outputs whose length a collective finds out.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/core/tensor.hpp>

namespace hvd::detail {

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

/// A tensor that a collective overwrites, and resizes where it can be. Of one that can be resized this keeps the address;
/// of any other, which may be a view that is gone before the call ends, where the elements are.
class Output {
public:
    template <class X>
    static Output of(X& x) {
        Output out;
        if constexpr (Resizable<X>) {
            out.object_ = const_cast<void*>(static_cast<const void*>(std::addressof(x)));
            out.size_ = [](void* object) { return size_of(*static_cast<X*>(object)); };
            out.data_ = [](void* object) { return static_cast<void*>(data_of(*static_cast<X*>(object))); };
            out.rows_ = [](void* object) { return rows_of(*static_cast<X*>(object)); };
            out.resize_ = [](void* object, const std::vector<std::size_t>& shape) {
                TensorTraits<X>::resize(*static_cast<X*>(object), shape);
            };
        } else {
            out.fixed_data_ = data_of(x);
            out.fixed_size_ = size_of(x);
            out.fixed_rows_ = rows_of(x);
        }
        return out;
    }

    /// Any elements of `element` bytes, as many as there are.
    static Output of_bytes(std::vector<std::byte>& bytes, std::size_t element) {
        Output out;
        out.object_ = &bytes;
        out.element_ = element;
        out.data_ = [](void* object) {
            return static_cast<void*>(static_cast<std::vector<std::byte>*>(object)->data());
        };
        return out;
    }

    void* data() const { return data_ != nullptr ? data_(object_) : fixed_data_; }
    Rows rows() const { return rows_ != nullptr ? rows_(object_) : fixed_rows_; }
    bool can_grow() const { return resize_ != nullptr; }

    /// Resizes to `shape`, or returns the sentence when a fixed output is too short for it.
    std::string make_room(const std::vector<std::size_t>& shape, std::string_view name, int rank, int ranks) const {
        std::size_t count = 1;
        for (std::size_t extent : shape) count *= extent;
        if (element_ > 0) {
            static_cast<std::vector<std::byte>*>(object_)->resize(count * element_);
            return {};
        }
        if (resize_ != nullptr && (size_(object_) != count || !has_shape(shape))) resize_(object_, shape);
        const std::size_t room = size_ != nullptr ? size_(object_) : fixed_size_;
        if (room >= count) return {};
        return located(std::string{name}, rank, ranks,
                       "the output has room for " + std::to_string(room) + " elements and the result has " +
                           std::to_string(count) + "; give it that many");
    }

private:
    bool has_shape(const std::vector<std::size_t>& shape) const {
        const Rows rows = rows_(object_);
        if (rows.trailing.empty()) return true;  // length is all that it has
        return rows.shape_with(rows.count) == shape;
    }

    void* object_ = nullptr;
    std::size_t element_ = 0;  // of bytes; 0 for a tensor
    void* fixed_data_ = nullptr;
    std::size_t fixed_size_ = 0;
    Rows fixed_rows_{};
    std::size_t (*size_)(void*) = nullptr;
    void* (*data_)(void*) = nullptr;
    Rows (*rows_)(void*) = nullptr;
    void (*resize_)(void*, const std::vector<std::size_t>&) = nullptr;
};

}  // namespace hvd::detail
