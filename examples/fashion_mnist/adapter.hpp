// What hvd has to be told about the tensor class of this program.
#pragma once

#include <hvd/core/tensor.hpp>  // hvd

#include "tensor.hpp"

template <>
struct hvd::tensor_traits<fashion::Tensor> {                                 // hvd
    using value_type = float;                                                // hvd
    static float* data(fashion::Tensor& t) { return t.row(0); }              // hvd
    static std::size_t size(const fashion::Tensor& t) { return t.count(); }  // hvd
};                                                                           // hvd
