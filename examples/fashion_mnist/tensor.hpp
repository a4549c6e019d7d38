// A matrix of floats: the tensor class of this program. It has never heard of hvd; see adapter.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

namespace fashion {

class Tensor {
public:
    Tensor() = default;
    Tensor(std::size_t rows, std::size_t cols) : rows_{rows}, cols_{cols}, memory_{new float[rows * cols]{}} {}

    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }
    std::size_t count() const { return rows_ * cols_; }

    float* row(std::size_t r) { return memory_.get() + r * cols_; }
    const float* row(std::size_t r) const { return memory_.get() + r * cols_; }

    /// Makes room for `rows` rows; what they hold is unspecified.
    void set_rows(std::size_t rows) {
        if (rows > capacity_rows()) {
            memory_ = std::make_unique<float[]>(rows * cols_);
            room_ = rows;
        }
        rows_ = rows;
    }

private:
    std::size_t capacity_rows() const { return std::max(room_, rows_); }

    std::size_t rows_ = 0, cols_ = 0, room_ = 0;
    std::unique_ptr<float[]> memory_;
};

}  // namespace fashion
