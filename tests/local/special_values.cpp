// Opposite signs, infinity and NaN; adasum.
#include "every_algorithm.hpp"
#include "workers.hpp"

#include <cmath>
#include <limits>

namespace {

const std::vector<int> sizes{1, 2, 3, 4, 5, 7, 8};

// The length of a vector, whatever its elements.
template <class E>
double norm(const std::vector<E>& x) {
    double sum = 0;
    for (E e : x) sum += static_cast<double>(e) * static_cast<double>(e);
    return std::sqrt(sum);
}

}  // namespace

TEST_CASE("opposite signs, infinity, NaN") {
    on_workers(sizes, [](const World& world) {
        with_every_algorithm(world, [](const auto& comm) {
            const int r = comm.rank(), p = comm.size();
            const auto try_type = [&]<class E>(E) {
                const auto inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
                const auto is_nan = [](E x) { return std::isnan(static_cast<float>(x)); };
                for (int who = 0; who < p; ++who) {
                    const auto mine = [&](float special, float usual) { return E{r == who ? special : usual}; };
                    std::vector<E> x(19);
                    for (std::size_t i = 0; i < 19; ++i) x[i] = E{static_cast<float>(i)};
                    x[3] = mine(inf, 1);
                    x[5] = mine(-inf, 1);
                    x[8] = mine(nan, 1);
                    x[11] = E{r % 2 == 0 ? 5.0f : -5.0f};
                    x[13] = E{r == who ? inf : -inf};
                    std::vector<E> sum = x, least = x, most = x, mean = x, product = x;
                    hvd::allreduce(comm, sum);
                    hvd::allreduce(comm, least, hvd::min);
                    hvd::allreduce(comm, most, hvd::max);
                    hvd::allreduce(comm, mean, hvd::average);
                    hvd::allreduce(comm, product, hvd::product);
                    expect(static_cast<float>(sum[3]) == inf && static_cast<float>(sum[5]) == -inf && is_nan(sum[8]),
                           "sums");
                    expect(static_cast<float>(sum[11]) == (p % 2 == 0 ? 0.0f : 5.0f), "opposite signs");
                    expect(p == 1 ? static_cast<float>(sum[13]) == inf : is_nan(sum[13]), "inf - inf");
                    expect(static_cast<float>(mean[3]) == inf && is_nan(mean[8]), "averages");
                    expect(static_cast<float>(product[3]) == inf && static_cast<float>(product[5]) == -inf &&
                               is_nan(product[8]),
                           "products");
                    expect(is_nan(least[8]) && is_nan(most[8]), "min and max pass NaN on");
                    expect(static_cast<float>(least[5]) == -inf && static_cast<float>(most[3]) == inf,
                           "min and max of infinities");
                    expect(static_cast<float>(least[3]) == (p == 1 ? inf : 1.0f), "min beside an infinity");
                    for (std::size_t i : {0u, 1u, 18u})
                        expect(static_cast<float>(least[i]) == static_cast<float>(i) &&
                                   static_cast<float>(most[i]) == static_cast<float>(i),
                               "neighbours");
                }
            };
            try_type(float{});
            try_type(hvd::float16{});
            try_type(hvd::bfloat16{});
        });
    });
}

TEST_CASE("adasum") {
    on_workers({1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16}, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
        const auto try_type = [&]<class E>(E, double slack) {
            std::vector<E> orthogonal(p), parallel(100);
            orthogonal[r] = E{static_cast<float>(r + 1)};
            hvd::allreduce(world, orthogonal, hvd::adasum);
            for (std::size_t i = 0; i < p; ++i)
                expect(std::abs(static_cast<double>(orthogonal[i]) - static_cast<double>(i + 1)) <=
                           slack * static_cast<double>(p * (i + 1)),
                       "orthogonal vectors add up");
            for (std::size_t i = 0; i < 100; ++i) parallel[i] = E{static_cast<float>(i % 9) - 4};
            const std::vector<E> same = parallel;
            hvd::allreduce(world, parallel, hvd::adasum);
            for (std::size_t i = 0; i < 100; ++i)
                expect(std::abs(static_cast<double>(parallel[i]) - static_cast<double>(same[i])) <=
                           slack * 4 * static_cast<double>(p),
                       "equal vectors give themselves");
            // Tiny, huge, zero.
            for (float scale : {std::numeric_limits<E>::lowest() < E{-1e30f} ? 1e30f : 1e4f,
                                std::numeric_limits<E>::lowest() < E{-1e30f} ? 1e-36f : 1e-4f, 0.0f}) {
                std::vector<E> x(50);
                for (std::size_t i = 0; i < 50; ++i)
                    x[i] = E{(static_cast<float>((i * 7 + r * 3) % 11) - 5.0f) / 5.0f * scale};
                hvd::allreduce(world, x, hvd::adasum);
                for (E e : x) expect(std::isfinite(static_cast<float>(e)), "neither NaN nor overflow");
                if (scale > 0) expect(norm(x) > 0, "tiny values do not vanish");
            }
            // Lengths: never longer than the sum of lengths, and scaling all scales the result.
            std::vector<E> x(30), y(30);
            for (std::size_t i = 0; i < 30; ++i) {
                x[i] = hvd::testing::value<E>(static_cast<int>(r), i);
                y[i] = E{static_cast<float>(x[i]) * 4.0f};
            }
            double lengths = 0;
            for (double length : hvd::allgather(world, std::vector<double>{norm(x)})) lengths += length;
            hvd::allreduce(world, x, hvd::adasum);
            hvd::allreduce(world, y, hvd::adasum);
            expect(norm(x) <= lengths * (1 + slack * static_cast<double>(p)), "not longer than the sum of lengths");
            for (std::size_t i = 0; i < 30; ++i)
                expect(std::abs(4 * static_cast<double>(x[i]) - static_cast<double>(y[i])) <=
                           4 * slack * lengths * static_cast<double>(p),
                       "scales with its input");
            const auto hash = hvd::testing::hash_of(x.data(), x.size() * sizeof(E));
            for (std::uint64_t other : hvd::allgather(world, std::vector<std::uint64_t>{hash}))
                expect(other == hash, "equal in every bit on all ranks");
        };
        try_type(float{}, 1e-6);
        try_type(double{}, 1e-13);
        // One rank against the rest: a vector and its opposite.
        if (p == 2) {
            std::vector<double> x{r == 0 ? 3.0 : -3.0, r == 0 ? 4.0 : -4.0};
            hvd::allreduce(world, x, hvd::adasum);
            expect(std::abs(x[0]) < 1e-12 && std::abs(x[1]) < 1e-12, "opposite vectors cancel");
            std::vector<double> y{r == 0 ? 1.0 : 1.0, r == 0 ? 0.0 : 1.0};  // (1,0) and (1,1): 1/2 a + 3/4 b
            hvd::allreduce(world, y, hvd::adasum);
            expect(std::abs(y[0] - 1.25) < 1e-12 && std::abs(y[1] - 0.75) < 1e-12, "the formula");
        }
    });
}

TEST_CASE("adasum of 16-bit floats") {
    on_workers({1, 2, 3, 5, 8}, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
        std::vector<hvd::float16> x(p);
        std::vector<hvd::bfloat16> y(p, hvd::bfloat16{2.0f});
        x[r] = hvd::float16{100.0f};
        hvd::allreduce(world, x, hvd::adasum);
        hvd::allreduce(world, y, hvd::adasum);
        for (std::size_t i = 0; i < p; ++i)
            expect(std::abs(static_cast<float>(x[i]) - 100) < 1 && std::abs(static_cast<float>(y[i]) - 2) < 0.1f,
                   "16-bit floats");
    });
}
