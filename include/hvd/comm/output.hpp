// Outputs of collectives: room for a result whose length the call finds out, and tensors seen as rows.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hvd/comm/agreement.hpp>
#include <hvd/core/tensor.hpp>

namespace hvd::detail {

/// `out` is resized to `shape` where its type can be; otherwise it must be long enough. Returns the sentence if it is not.
template <class Out>
std::string make_room(Out& out, const std::vector<std::size_t>& shape, std::string_view name, int rank, int size) {
    std::size_t count = 1;
    for (std::size_t extent : shape) count *= extent;
    if constexpr (Resizable<Out>) {
        if (size_of(out) != count) TensorTraits<Out>::resize(out, shape);
    }
    if (size_of(out) >= count) return {};
    return located(std::string{name}, rank, size,
                   "the output has room for " + std::to_string(size_of(out)) + " elements and the result has " +
                       std::to_string(count) + "; give it that many");
}

/// What a fixed output can hold, or more than anything when it can grow.
template <class Out>
std::size_t capacity_of(const Out& out) {
    if constexpr (Resizable<Out>) return ~std::size_t{0};
    else return size_of(out);
}

/// What the calls of all ranks must have in common when they pass rows.
inline void add_trailing(Call& call, const Rows& rows) {
    call.with(std::uint64_t{rows.trailing.size()});
    for (std::size_t extent : rows.trailing) call.with(std::uint64_t{extent});
}

inline std::string rows_text(const Rows& rows, std::string_view scalar) {
    std::string text = "rows of " + std::string{scalar};
    if (!rows.trailing.empty()) {
        text += " [";
        for (std::size_t i = 0; i < rows.trailing.size(); ++i)
            text += (i > 0 ? ", " : "") + std::to_string(rows.trailing[i]);
        text += "]";
    }
    return text;
}

/// The sentence for an adapter whose shape and size contradict each other, or nothing.
template <class X>
std::string shape_error(const X& x, const Rows& rows, std::string_view name, int rank, int size) {
    if (rows.count * rows.width == size_of(x)) return {};
    return located(std::string{name}, rank, size,
                   "tensor_traits says that the tensor has " + std::to_string(size_of(x)) + " elements, but its shape has " +
                       std::to_string(rows.count * rows.width) + "; mend shape() or size()");
}

}  // namespace hvd::detail
