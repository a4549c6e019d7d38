// Compression: what gradients look like on the wire.
#pragma once

#include <concepts>
#include <cstddef>

#include <hvd/core/float16.hpp>

namespace hvd {

/// Gradients travel as they are.
struct NoCompression {
    template <class E>
    using wire_type = E;
};

/// float and double gradients travel as float16: half or a quarter of the bytes; 11 bits of precision, up to 65504.
struct Fp16 {
    template <class E>
    using wire_type = std::conditional_t<std::floating_point<E>, float16, E>;
};

/// float and double gradients travel as bfloat16: 8 bits of precision, float's range.
struct Bf16 {
    template <class E>
    using wire_type = std::conditional_t<std::floating_point<E>, bfloat16, E>;
};

/// The type that elements of type `E` travel as is `C::template wire_type<E>`.
template <class C>
concept Compression = requires {
    typename C::template wire_type<float>;
};

}  // namespace hvd
