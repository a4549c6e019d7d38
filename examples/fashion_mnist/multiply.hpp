// Matrix multiplication on one core: panels packed for the cache, a tile of the result held in vector registers. Compiled
// for AVX-512, AVX2 and any processor; the program picks what the machine has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "tensor.hpp"

namespace fashion {

/// A matrix as it is, or transposed.
struct Operand {
    const float* data;
    std::size_t rows, cols, row_stride, col_stride;

    explicit Operand(const Tensor& t)
        : data{t.row(0)}, rows{t.rows()}, cols{t.cols()}, row_stride{t.cols()}, col_stride{1} {}
    Operand transposed() const {
        Operand other = *this;
        std::swap(other.rows, other.cols);
        std::swap(other.row_stride, other.col_stride);
        return other;
    }
    const float* at(std::size_t r, std::size_t c) const { return data + r * row_stride + c * col_stride; }
};

namespace detail {

constexpr std::size_t alignment = 64;
constexpr std::size_t depth = 256;  // of the packed panels

/// Memory for packed panels; one per thread, and it only grows.
class Panels {
public:
    float* get(std::size_t floats) {
        if (floats > room_) {
            memory_.reset(static_cast<float*>(::operator new[](floats * sizeof(float), std::align_val_t{alignment})));
            room_ = floats;
        }
        return memory_.get();
    }

private:
    struct Delete {
        void operator()(float* p) const { ::operator delete[](p, std::align_val_t{alignment}); }
    };
    std::unique_ptr<float[], Delete> memory_;
    std::size_t room_ = 0;
};

template <std::size_t Lanes>
struct VectorOf {
    typedef float type __attribute__((vector_size(Lanes * sizeof(float))));
};

/// Copies `count` lines of length `length` side by side into `to`, padded with zeros to `width` lines.
template <std::size_t Width>
[[gnu::always_inline]] inline void pack(const float* from, std::size_t line_stride, std::size_t element_stride,
                                        std::size_t lines, std::size_t length, float* to) {
    if (lines < Width) std::memset(to, 0, Width * length * sizeof(float));
    if (line_stride == 1) {
        for (std::size_t k = 0; k < length; ++k)
            std::memcpy(to + k * Width, from + k * element_stride, lines * sizeof(float));
    } else {
        for (std::size_t i = 0; i < lines; ++i)
            for (std::size_t k = 0; k < length; ++k) to[k * Width + i] = from[i * line_stride + k * element_stride];
    }
}

/// c = a b. Tiles of `Tall` rows by 2 vectors of `Lanes` floats.
template <std::size_t Lanes, std::size_t Tall>
[[gnu::always_inline]] inline void multiply(const Operand& a, const Operand& b, Tensor& c, float* panels) {
    using Vector = typename VectorOf<Lanes>::type;
    constexpr std::size_t wide = 2 * Lanes;
    float* const packed_a = panels;
    float* const packed_b = panels + (Tall * depth + wide - 1) / wide * wide;

    for (std::size_t k0 = 0; k0 < a.cols; k0 += depth) {
        const std::size_t length = std::min(depth, a.cols - k0);
        for (std::size_t n = 0; n < b.cols; n += wide)
            pack<wide>(b.at(k0, n), b.col_stride, b.row_stride, std::min(wide, b.cols - n), length,
                       packed_b + n * depth);
        for (std::size_t m = 0; m < a.rows; m += Tall) {
            const std::size_t tall = std::min(Tall, a.rows - m);
            pack<Tall>(a.at(m, k0), a.row_stride, a.col_stride, tall, length, packed_a);
            for (std::size_t n = 0; n < b.cols; n += wide) {
                const float* pa = packed_a;
                const float* pb = packed_b + n * depth;
                Vector left[Tall]{}, right[Tall]{};
                for (std::size_t k = 0; k < length; ++k, pa += Tall, pb += wide) {
                    const Vector b0 = *reinterpret_cast<const Vector*>(pb);
                    const Vector b1 = *reinterpret_cast<const Vector*>(pb + Lanes);
                    for (std::size_t i = 0; i < Tall; ++i) {
                        left[i] += pa[i] * b0;
                        right[i] += pa[i] * b1;
                    }
                }
                const std::size_t columns = std::min(wide, b.cols - n);
                for (std::size_t i = 0; i < tall; ++i) {
                    alignas(alignment) float line[wide];
                    std::memcpy(line, &left[i], sizeof(Vector));
                    std::memcpy(line + Lanes, &right[i], sizeof(Vector));
                    float* to = c.row(m + i) + n;
                    if (k0 == 0) std::memcpy(to, line, columns * sizeof(float));
                    else
                        for (std::size_t j = 0; j < columns; ++j) to[j] += line[j];
                }
            }
        }
    }
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] inline void multiply_avx512(const Operand& a, const Operand& b, Tensor& c, float* panels) {
    multiply<16, 12>(a, b, c, panels);
}
[[gnu::target("avx2,fma")]] inline void multiply_avx2(const Operand& a, const Operand& b, Tensor& c, float* panels) {
    multiply<8, 6>(a, b, c, panels);
}
#endif
inline void multiply_anywhere(const Operand& a, const Operand& b, Tensor& c, float* panels) {
    multiply<4, 4>(a, b, c, panels);
}

using Multiply = void (*)(const Operand&, const Operand&, Tensor&, float*);

inline Multiply best_multiply() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return multiply_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
    return multiply_anywhere;
}

}  // namespace detail

/// c = a b, where c has the right size already.
inline void multiply(const Operand& a, const Operand& b, Tensor& c) {
    static const detail::Multiply best = detail::best_multiply();
    if (a.cols == 0) std::fill(c.row(0), c.row(0) + c.count(), 0.0f);
    static thread_local detail::Panels panels;
    best(a, b, c, panels.get((b.cols + 128) * detail::depth));
}

}  // namespace fashion
