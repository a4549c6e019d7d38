// Tensor classes of your own: an adapter says where the elements are, and how many. Two of them here, and what is refused.
#include <hvd/hvd.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

// 1. A matrix without strides: rows one after the other.
class Matrix {
public:
    Matrix() = default;
    Matrix(std::size_t rows, std::size_t cols) : rows_{rows}, cols_{cols}, cells_{new double[rows * cols]{}} {}
    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }
    double& operator()(std::size_t r, std::size_t c) { return cells_[r * cols_ + c]; }

private:
    std::size_t rows_ = 0, cols_ = 0;
    std::unique_ptr<double[]> cells_;
};

// The adapter belongs in the header of the class, so that every use of the class sees it.
template <>
struct hvd::tensor_traits<Matrix> {
    using value_type = double;
    static double* data(Matrix& m) { return m.rows() * m.cols() == 0 ? nullptr : &m(0, 0); }
    static std::size_t size(const Matrix& m) { return m.rows() * m.cols(); }
    // Optional: with a shape, allgather joins matrices by rows; with resize, results of unknown size fit.
    static std::vector<std::size_t> shape(const Matrix& m) { return {m.rows(), m.cols()}; }
    static void resize(Matrix& m, std::span<const std::size_t> shape) { m = Matrix{shape[0], shape[1]}; }
};
static_assert(hvd::Tensor<Matrix>);

// 2. A handle as libraries for devices give out: only the library knows what is behind it. Here it is host memory; elements
// must be reachable by the processor.
extern "C" {
struct buffer_record {
    std::size_t floats;
    float* memory;
};
typedef buffer_record* buffer_t;
static buffer_t buffer_create(std::size_t floats) {
    return new buffer_record{floats, static_cast<float*>(std::calloc(floats, sizeof(float)))};
}
static void buffer_destroy(buffer_t b) {
    std::free(b->memory);
    delete b;
}
static float* buffer_address(buffer_t b) { return b->memory; }
static std::size_t buffer_floats(buffer_t b) { return b->floats; }
}

// A raw handle is a pointer, which hvd takes for no tensor; the class that owns it is one.
class Buffer {
public:
    explicit Buffer(std::size_t floats) : handle_{buffer_create(floats)} {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { buffer_destroy(handle_); }
    buffer_t handle() const { return handle_; }

private:
    buffer_t handle_;
};

template <>
struct hvd::tensor_traits<Buffer> {
    using value_type = float;
    static float* data(const Buffer& b) { return buffer_address(b.handle()); }  // asked anew for every operation
    static std::size_t size(const Buffer& b) { return buffer_floats(b.handle()); }
};
static_assert(hvd::Tensor<Buffer>);

int main(int argc, char** argv) {
    return hvd::launch(argc, argv, [](auto& world) {
        const int rank = world.rank(), size = world.size();
        const auto check = [](bool ok, const char* what) {
            if (!ok) throw std::runtime_error{what};
        };

        Matrix own{2, 3};  // two rows of every worker
        own(0, 0) = own(1, 2) = rank + 1;
        Matrix all;
        hvd::allgather(world, own, all);
        check(all.rows() == 2 * static_cast<std::size_t>(size) && all.cols() == 3 && all(all.rows() - 1, 2) == size,
              "rows");

        Buffer buffer{4};
        buffer_address(buffer.handle())[3] = 1;
        hvd::allreduce(world, std::tie(own, buffer), hvd::sum);  // different classes and element types in one call
        check(own(1, 2) == size * (size + 1) / 2 && buffer_address(buffer.handle())[3] == static_cast<float>(size),
              "sum");
        if (rank == 0) std::printf("OK with %d workers\n", size);

        // Refused by the compiler, each with one sentence. Uncomment a line to see it.
        //
        // hvd::allreduce(world, buffer.handle());
        //   hvd: a pointer does not say how many elements it has; pass std::span{pointer, count}
        // hvd::allreduce(world, 1.0f);
        //   hvd: a single number is no tensor; pass std::span{&number, 1} or an array of one
        // std::vector<bool> bits(8); hvd::allreduce(world, bits, hvd::max);
        //   hvd: std::vector<bool> packs bits and has no elements to point at; use std::vector<char> or std::array<bool, n>
        // struct Mine { float x[4]; } mine; hvd::allreduce(world, mine);
        //   hvd: this type is no tensor; specialise hvd::tensor_traits for it, with value_type, data and size, in the header
        //   that defines it
        // hvd::allreduce(world, std::vector<float>(4));
        //   hvd: the result would be lost with this temporary tensor; pass a named one or a std::span
        // const std::vector<float> constant(4); hvd::allreduce(world, constant);
        //   hvd: this tensor is constant and cannot take the result; pass a writable one
    });
}
