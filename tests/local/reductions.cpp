// What a reduction means: shapes, in and out of place, scale factors, groups, a scalar of the user's.
#include "every_algorithm.hpp"
#include "workers.hpp"

#include <array>
#include <cmath>
#include <complex>
#include <cstring>

namespace {

const std::vector<int> sizes{1, 2, 3, 4, 5, 7, 8};

struct Best {  // a value and where it is
    double value;
    std::int32_t place;
};

struct Better {
    Best operator()(Best a, Best b) const {
        return a.value > b.value || (a.value == b.value && a.place < b.place) ? a : b;
    }
};

}  // namespace

template <>
inline constexpr bool hvd::enable_scalar<Best> = true;

TEST_CASE("one, two and three dimensions of edge 17, in place and out of place") {
    on_workers(sizes, [](const World& world) {
        for (std::size_t n : {17u, 17u * 17u, 17u * 17u * 17u}) {
            Matrix x{17, n / 17, world.rank() + 1.0}, out;
            hvd::allreduce(world, x, out, hvd::sum);
            expect(out.shape == x.shape, "the output has the input's shape");
            for (std::size_t i = 0; i < n; ++i) {
                const double want = world.size() * (world.size() + 1) / 2.0 + static_cast<double>(i) * world.size();
                expect(x.elements[i] == world.rank() + 1.0 + static_cast<double>(i), "the input is untouched");
                expect(out.elements[i] == want, "the sum");
            }
            hvd::allreduce(world, x);
            expect(x.elements == out.elements, "in place the same");
        }
    });
}

TEST_CASE("scale factors") {
    on_workers(sizes, [](const World& world) {
        const int p = world.size();
        const auto r = static_cast<double>(world.rank());
        // prescale f: the sum of cast(f x); postscale f: cast(f times the sum). Toward zero, also on negative odd values.
        std::vector<int> a{3, -3, 7, 0}, b = a;
        hvd::allreduce(world, a, hvd::sum, {.prescale = 0.5});
        hvd::allreduce(world, b, hvd::sum, {.postscale = 0.5});
        expect(a == std::vector<int>{p, -p, 3 * p, 0}, "integers with prescale");
        expect(b == std::vector<int>{3 * p / 2, -3 * p / 2, 7 * p / 2, 0}, "integers with postscale");
        std::vector<std::uint8_t> c(3, 200);
        hvd::allreduce(world, c, hvd::max, {.prescale = 0.25, .postscale = 2});
        expect(c[2] == 100, "bytes with both");
        std::vector<std::int64_t> large(2, (std::int64_t{1} << 40) + 1);
        hvd::allreduce(world, large, hvd::max, {.postscale = 0.5});
        expect(large[1] == std::int64_t{1} << 39, "long integers compute in double");
        std::vector<double> d(5, r + 1);
        hvd::allreduce(world, d, {.prescale = 2.0, .postscale = 0.25});
        expect(d[4] == p * (p + 1) / 4.0, "double with both");
        std::vector<hvd::float16> h(4, hvd::float16{3.0f});
        hvd::allreduce(world, h, hvd::sum, {.prescale = 0.1});
        const auto tenth = static_cast<double>(static_cast<float>(hvd::float16{0.1f * 3.0f}));
        expect(std::abs(static_cast<double>(static_cast<float>(h[0])) - tenth * p) <= 2e-3 * p * tenth * p,
               "float16 scales in float");
        std::vector<std::complex<float>> z(2, {1, -2});
        hvd::allreduce(world, z, hvd::sum, {.postscale = 3});
        expect(z[1] == std::complex<float>(3.0f * static_cast<float>(p), -6.0f * static_cast<float>(p)), "complex");
        // The mean of integers divides in double and truncates toward zero.
        std::vector<int> mean{world.rank() == 0 ? -1 : -2, 5};
        hvd::allreduce(world, mean, hvd::average);
        const int sum = -1 - 2 * (p - 1);
        expect(mean[0] == -(-sum / p) && mean[1] == 5, "integer average");
        std::vector<std::int8_t> small(3, 100);
        hvd::allreduce(world, small, hvd::average);
        expect(small[0] == 100, "an average of bytes does not overflow on its way");
        std::vector<hvd::float16> top(2, hvd::float16{60000.0f});
        hvd::allreduce(world, top, hvd::average);
        expect(std::abs(static_cast<float>(top[1]) - 60000.0f) <= 60000 * 2e-3f * static_cast<float>(p),
               "an average of float16 does not overflow on its way");
        hvd::allreduce(world, mean, hvd::average, {.prescale = 2, .postscale = 0.5});
        expect(mean[1] == 5, "average with both");
    });
}

TEST_CASE("groups") {
    on_workers(sizes, [](const World& world) {
        with_every_algorithm(world, [](const auto& comm) {
            const int p = comm.size();
            std::vector<float> a(17, 1);
            std::vector<std::int8_t> b(1000, 2);
            std::array<double, 3> c{1, 2, 3};
            std::vector<hvd::bfloat16> d;
            std::vector<float> e(400000, 3);
            hvd::allreduce(comm, std::tie(a, b, c, d, e));
            expect(a[16] == static_cast<float>(p) && b[999] == static_cast<std::int8_t>(2 * p) && c[2] == 3.0 * p &&
                       e[399999] == 3.0f * static_cast<float>(p),
                   "five of different types and sizes");
            hvd::allreduce(comm, std::tie(a), hvd::average);
            expect(a[0] == static_cast<float>(p), "a group of one");
            hvd::allreduce(comm, std::tuple<>{});
            std::vector<std::vector<int>> none, list;
            hvd::allreduce(comm, none);
            for (std::size_t i = 0; i < 30; ++i) list.emplace_back(i * i * 37, static_cast<int>(i));
            hvd::allreduce(comm, list, hvd::sum, {.postscale = 2});
            for (std::size_t i = 0; i < 30; ++i)
                for (int x : list[i]) expect(x == static_cast<int>(i) * p * 2, "a list of many lengths");
            std::vector<std::span<int>> views;
            for (auto& x : list) views.emplace_back(x);
            hvd::allreduce(comm, views, hvd::max);
            expect(list[29][0] == 29 * p * 2, "a list of views");
            const auto group = std::tie(a, c);
            hvd::allreduce(comm, group, hvd::min);
            hvd::allreduce_async(comm, group, hvd::max).wait();
            expect(c[0] == 1.0 * p, "a named tuple");
        });
    });
}

TEST_CASE("the result of a group is that of its tensors alone") {
    on_workers({2, 3, 5}, [](const World& world) {
        std::vector<std::vector<float>> group, alone;
        for (int i = 0; i < 10; ++i) {
            std::vector<float> x(static_cast<std::size_t>(i) * 77 + 1);
            for (std::size_t k = 0; k < x.size(); ++k) x[k] = hvd::testing::value<float>(world.rank() * 10 + i, k);
            group.push_back(x);
            alone.push_back(x);
        }
        hvd::allreduce(world, group, hvd::adasum);
        for (auto& x : alone) hvd::allreduce(world, x, hvd::adasum);
        for (std::size_t i = 0; i < 10; ++i)
            expect(std::memcmp(group[i].data(), alone[i].data(), alone[i].size() * sizeof(float)) == 0,
                   "adasum looks at each tensor");
    });
}

TEST_CASE("a scalar and an operation of the user's") {
    on_workers({1, 2, 3, 5, 8, 13}, [](const World& world) {
        with_every_algorithm(world, [](const auto& comm) {
            for (std::size_t n : {1u, 17u, 5000u}) {
                std::vector<Best> x(n), out;
                for (std::size_t i = 0; i < n; ++i)
                    x[i] = {static_cast<double>(hvd::testing::scrambled(comm.rank(), i) % 50), comm.rank()};
                hvd::allreduce(comm, x, out, Better{});
                for (std::size_t i = 0; i < n; ++i) {
                    Best want{-1, 0};
                    for (int r = 0; r < comm.size(); ++r)
                        want = Better{}(want, Best{static_cast<double>(hvd::testing::scrambled(r, i) % 50), r});
                    expect(out[i].value == want.value && out[i].place == want.place, "the best of all");
                }
                // They travel, too.
                std::vector<Best> moved = hvd::allgather(comm, std::vector<Best>(2, Best{1.5, comm.rank()}));
                expect(moved.back().place == comm.size() - 1, "allgather of a scalar of the user's");
                hvd::broadcast(comm, moved, 0);
            }
        });
    });
}

TEST_CASE("complex numbers") {
    on_workers({1, 2, 3, 5}, [](const World& world) {
        std::vector<std::complex<double>> z(7, {0, 1}), w = z;
        hvd::allreduce(world, z, hvd::product);
        hvd::allreduce(world, w, hvd::average);
        const std::complex<double> powers[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
        expect(std::abs(z[6] - powers[world.size() % 4]) < 1e-13 && std::abs(w[0] - std::complex<double>(0, 1)) < 1e-13,
               "powers of i");
    });
}
