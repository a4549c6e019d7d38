// Which reduce operations are refused for which elements, and how.
#include <array>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include <hvd/comm/allreduce.hpp>
#include <hvd/comm/launch.hpp>
#include <hvd/comm/reduce.hpp>
#include <hvd/comm/reduce_scatter.hpp>

struct Pair {
    int a, b;
};
template <>
inline constexpr bool hvd::enable_scalar<Pair> = true;

int main() {
    return hvd::launch<hvd::Local>(2, [](auto& world) {
        std::array<bool, 3> flags{};
        std::vector<std::complex<float>> numbers(3), other_numbers;
        std::vector<std::int32_t> integers(3), other_integers;
        std::vector<Pair> pairs(3);
        std::vector<float> floats(3), other_floats;
        hvd::allreduce(world, flags, hvd::max);
        hvd::allreduce(world, numbers, hvd::product);
        hvd::allreduce(world, pairs, [](Pair x, Pair y) { return Pair{x.a + y.a, x.b + y.b}; });
#if CASE == 1
        // expect: bool can only be reduced with hvd::min (and) and hvd::max (or)
        hvd::allreduce(world, flags, hvd::sum);
#elif CASE == 2
        // expect: bool can only be reduced with hvd::min (and) and hvd::max (or)
        hvd::allreduce(world, flags, hvd::average);
#elif CASE == 3
        // expect: complex numbers have no order and no adasum
        hvd::allreduce(world, numbers, hvd::max);
#elif CASE == 4
        // expect: complex numbers have no order and no adasum
        hvd::reduce(world, numbers, 0, hvd::adasum);
#elif CASE == 5
        // expect: adasum needs floating-point gradients
        hvd::allreduce(world, integers, hvd::adasum);
#elif CASE == 6
        // expect: hvd does not know how to reduce this scalar type
        hvd::allreduce(world, pairs);
#elif CASE == 7
        // expect: hvd does not know how to reduce this scalar type
        hvd::reduce(world, pairs, 0, hvd::min);
#elif CASE == 8
        // expect: this reduce operation cannot be called as T(T, T)
        hvd::allreduce(world, floats, [](float x) { return x; });
#elif CASE == 9
        // expect: this reduce operation cannot be called as T(T, T)
        hvd::allreduce(world, floats, [](std::string a, std::string) { return a; });
#elif CASE == 10
        // expect: this reduce operation cannot be called as T(T, T)
        hvd::allreduce(world, floats, other_floats, [](float, float) { return std::string{}; });
#elif CASE == 11
        // expect: this reduce operation cannot be called as T(T, T)
        hvd::reduce_scatter(world, floats, other_floats, 3);
#elif CASE == 12
        // expect: bool can only be reduced with hvd::min (and) and hvd::max (or)
        hvd::allreduce_async(world, flags).wait();
#elif CASE == 13
        // expect: adasum needs floating-point gradients
        hvd::reduce_scatter(world, integers, other_integers, hvd::adasum);
#elif CASE == 14
        // expect: complex numbers have no order
        hvd::allreduce(world, std::tie(floats, numbers), hvd::min);
#elif CASE == 15
        // expect: adasum needs floating-point gradients
        hvd::allreduce_async(world, std::tie(integers, floats), hvd::adasum).wait();
#endif
    });
}
