// What is refused as a tensor, and how.
#include <cstddef>
#include <list>
#include <vector>

#include <hvd/hvd.hpp>

namespace my {

// A tensor class that has no adapter.
struct Matrix {
    std::vector<float> values;
};

// Tensor classes whose adapters lack something.
struct NoData {};
struct NoSize {};
struct OddElements {};

struct Element {
    float x;
};

}  // namespace my

template <>
struct hvd::tensor_traits<my::NoData> {
    using value_type = float;
    static std::size_t size(const my::NoData&) { return 0; }
};

template <>
struct hvd::tensor_traits<my::NoSize> {
    using value_type = float;
    static float* data(my::NoSize&) { return nullptr; }
};

template <>
struct hvd::tensor_traits<my::OddElements> {
    using value_type = my::Element;
    static my::Element* data(my::OddElements&) { return nullptr; }
    static std::size_t size(const my::OddElements&) { return 0; }
};

int main() {
    return hvd::launch<hvd::Local>(2, [](auto& world) {
        std::vector<float> right(3);
        hvd::allreduce(world, right);
#if CASE == 1
        // expect: this type is no tensor; specialise hvd::tensor_traits for it
        my::Matrix matrix;
        hvd::allreduce(world, matrix);
#elif CASE == 2
        // expect: std::vector<bool> packs bits
        std::vector<bool> bits(3);
        hvd::allreduce(world, bits, hvd::max);
#elif CASE == 3
        // expect: a pointer does not say how many elements it has
        float* pointer = right.data();
        hvd::allreduce(world, pointer);
#elif CASE == 4
        // expect: a single number is no tensor
        float number = 1;
        hvd::allreduce(world, number);
#elif CASE == 5
        // expect: this range is no tensor
        std::list<float> list(3);
        hvd::allreduce(world, list);
#elif CASE == 6
        // expect: lacks static value_type* data(T&)
        my::NoData tensor;
        hvd::allreduce(world, tensor);
#elif CASE == 7
        // expect: lacks static std::size_t size(const T&)
        my::NoSize tensor;
        hvd::allreduce(world, tensor);
#elif CASE == 8
        // expect: is no hvd::Scalar
        my::OddElements tensor;
        hvd::allreduce(world, tensor);
#elif CASE == 9
        // expect: would be lost with this temporary tensor
        hvd::allreduce(world, std::vector<float>(3));
#elif CASE == 10
        // expect: this tensor is constant
        const std::vector<float> constant(3);
        hvd::allreduce(world, constant);
#elif CASE == 11
        // expect: this temporary tensor would be gone
        hvd::allreduce_async(world, std::vector<float>(3), right);
#elif CASE == 12
        // expect: different element types
        std::vector<double> other(3);
        hvd::allreduce(world, right, other);
#elif CASE == 13
        // expect: bool can only be reduced with hvd::min (and) and hvd::max (or)
        bool flags[3] = {};
        hvd::allreduce(world, flags);
#elif CASE == 14
        // expect: this reduce operation cannot be called as T(T, T)
        hvd::allreduce(world, right, [](const char*) { return 1; });
#elif CASE == 15
        // expect: this type is no tensor
        my::Matrix matrix;
        hvd::broadcast(world, matrix, 0);
#endif
    });
}
