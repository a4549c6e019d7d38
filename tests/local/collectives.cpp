// Broadcast, gathering, scattering, exchanging: every count, every root, tensors of every kind.
#include "workers.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <string>

namespace {

const std::vector<int> sizes{1, 2, 3, 4, 5, 7, 8};

template <class E>
void broadcast_from_all(const World& world) {
    for (int root = 0; root < world.size(); ++root) {
        for (std::size_t n : {0u, 1u, 17u, 4913u, 100003u}) {
            const Buffer<E> x{world.rank(), n}, want{root, n};
            hvd::broadcast(world, x.span(), root);
            expect(n == 0 ||
                       std::memcmp(static_cast<const void*>(x.span().data()), want.span().data(), n * sizeof(E)) == 0,
                   "broadcast");
        }
    }
}

// A tensor class that can only be moved and not be resized, whose adapter knows data(T&) only.
struct Fixed {
    std::unique_ptr<double[]> elements;
    std::size_t count;
    explicit Fixed(std::size_t n) : elements{new double[n + 1]()}, count{n} {}
};

struct Settings {  // with members that are no plain bytes
    std::string name;
    std::vector<std::vector<double>> layers;
    int depth = 0;
    template <class Archive>
    void serialize(Archive& a) {
        a(name, layers, depth);
    }
};

struct Plain {
    int a;
    double b;
};

}  // namespace

template <>
struct hvd::tensor_traits<Fixed> {
    using value_type = double;
    static double* data(Fixed& x) { return x.elements.get(); }
    static std::size_t size(const Fixed& x) { return x.count; }
};

TEST_CASE("broadcast from every root, every type") {
    on_workers(sizes, [](const World& world) {
        broadcast_from_all<bool>(world);
        broadcast_from_all<std::int8_t>(world);
        broadcast_from_all<std::uint64_t>(world);
        broadcast_from_all<hvd::bfloat16>(world);
        broadcast_from_all<double>(world);
        broadcast_from_all<std::complex<double>>(world);
    });
    on_workers({16}, [](const World& world) { broadcast_from_all<float>(world); });
}

TEST_CASE("reduce to every root") {
    on_workers({1, 2, 3, 5, 8, 9}, [](const World& world) {
        const int p = world.size();
        for (int root = 0; root < p; ++root) {
            for (std::size_t n : {0u, 1u, 17u, 60001u}) {
                std::vector<long> x(n);
                for (std::size_t i = 0; i < n; ++i) x[i] = world.rank() * 3 + static_cast<long>(i);
                std::vector<long> y = x, z = x;
                hvd::reduce(world, x, root);
                hvd::reduce(world, y, root, hvd::average, {.prescale = 2});
                hvd::reduce_async(world, z, root, [](long a, long b) { return a > b ? a : b; }).wait();
                for (std::size_t i = 0; i < n && world.rank() == root; ++i) {
                    const long own = static_cast<long>(i), sum = 3 * (long{p} * (p - 1) / 2) + own * p;
                    expect(x[i] == sum && y[i] == 2 * sum / p && z[i] == 3 * (p - 1) + own, "reduce");
                }
            }
        }
        std::vector<double> v(static_cast<std::size_t>(p), 0);
        v[static_cast<std::size_t>(world.rank())] = 2;
        hvd::reduce(world, v, 0, hvd::adasum);
        for (double e : v) expect(world.rank() != 0 || std::abs(e - 2) < 1e-12, "reduce with adasum");
    });
}

TEST_CASE("allgather of 17, 32, 81, 12, 15, 23, 22 rows") {
    on_workers({1, 2, 3, 4, 5, 7}, [](const World& world) {
        const std::size_t counts[] = {17, 32, 81, 12, 15, 23, 22};
        for (int empty : {-1, 0, world.size() - 1, world.size() / 2, 100}) {  // a rank without rows; 100: all
            const auto rows = [&](int r) { return r == empty || empty == 100 ? 0 : counts[r]; };
            const Matrix mine{rows(world.rank()), 3, 1000.0 * world.rank()};
            Matrix all{5, 3};
            hvd::allgather(world, mine, all);
            std::size_t at = 0;
            for (int r = 0; r < world.size(); ++r)
                for (std::size_t i = 0; i < rows(r) * 3; ++i)
                    expect(all.elements.at(at++) == 1000.0 * r + static_cast<double>(i), "rows in rank order");
            expect(at == all.elements.size() && all.shape == std::vector<std::size_t>{at / 3, 3},
                   "the shape of the result");
            const Matrix returned = hvd::allgather(world, mine);
            expect(returned.elements == all.elements && returned.shape == all.shape, "the result as a value");
        }
        // Where the input cannot be made or resized the result is a vector.
        const std::vector<double> from_fixed = hvd::allgather(world, Fixed{2});
        expect(from_fixed.size() == 2 * static_cast<std::size_t>(world.size()), "of a fixed tensor");
        const std::array<int, 2> pair{world.rank(), 7};
        const std::vector<int> from_array = hvd::allgather(world, pair);
        expect(from_array[from_array.size() - 2] == world.size() - 1, "of an array");
        const std::vector<float> large =
            hvd::allgather(world, std::vector<float>(50000 + 1000 * static_cast<std::size_t>(world.rank()), 1.5f));
        expect(large.back() == 1.5f, "of long tensors");
    });
}

TEST_CASE("alltoall") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
        std::vector<int> out;
        // r + 1 rows to each.
        const std::vector<int> in((r + 1) * p, world.rank());
        std::vector<std::size_t> received = hvd::alltoall(world, in, std::vector<std::size_t>(p, r + 1), out);
        for (std::size_t i = 0; i < p; ++i) expect(received[i] == i + 1, "received counts are 1 ... p");
        std::size_t at = 0;
        for (std::size_t i = 0; i < p; ++i)
            for (std::size_t k = 0; k <= i; ++k) expect(out.at(at++) == static_cast<int>(i), "rows in rank order");
        expect(at == out.size(), "no more rows");
        // Rank 1 sends nothing; rank 0 receives nothing. Rows of three elements.
        std::vector<std::size_t> counts(p);
        for (std::size_t to = 1; to < p && r != 1; ++to) counts[to] = r + 2 * to;
        std::size_t total = 0;
        for (std::size_t c : counts) total += c;
        const Matrix rows{total, 3, 10000.0 * world.rank()};
        Matrix got;
        received = hvd::alltoall(world, rows, counts, got);
        at = 0;
        for (std::size_t from = 0; from < p; ++from) {
            const std::size_t want = r == 0 || from == 1 ? 0 : from + 2 * r;
            expect(received[from] == want, "received counts");
            std::size_t before = 0;
            for (std::size_t to = 1; to < r; ++to) before += from + 2 * to;
            for (std::size_t i = 0; i < want * 3; ++i)
                expect(
                    got.elements.at(at++) == 10000.0 * static_cast<double>(from) + static_cast<double>(before * 3 + i),
                    "rows");
        }
        // Long ones, and nothing at all.
        const std::vector<float> much(30000 * p, static_cast<float>(r));
        std::vector<float> exchanged;
        hvd::alltoall(world, much, std::vector<std::size_t>(p, 30000), exchanged);
        for (std::size_t i = 0; i < exchanged.size(); ++i)
            expect(exchanged[i] == static_cast<float>(i / 30000), "long rows");
        hvd::alltoall(world, std::vector<float>{}, std::vector<std::size_t>(p, 0), exchanged);
        expect(exchanged.empty(), "nothing");
    });
}

TEST_CASE("reduce_scatter, and back by allgather") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
        for (std::size_t rows : {4 * p + p / 2, p - 1, std::size_t{0}, std::size_t{1}, p, std::size_t{20011}}) {
            Matrix x{rows, 2}, part;
            for (std::size_t i = 0; i < x.elements.size(); ++i)
                x.elements[i] = hvd::testing::value<float>(world.rank(), i);
            const Matrix before = x;
            hvd::reduce_scatter(world, x, part);
            expect(part.shape[0] == rows / p + (r < rows % p ? 1 : 0), "the first ranks take one more");
            expect(x.elements == before.elements, "the input is untouched");
            const Matrix back = hvd::allgather(world, part);
            hvd::allreduce(world, x);
            expect(back.elements == x.elements, "together they are an allreduce");
        }
        std::vector<int> y(3 * p, world.rank()), out;
        hvd::reduce_scatter(world, y, out, hvd::average, {.prescale = 4});
        expect(out.size() == 3 && out[2] == 2 * (world.size() - 1), "average, with a factor");
        hvd::reduce_scatter(world, y, out, [](int a, int b) { return a > b ? a : b; });
        expect(out[0] == world.size() - 1, "a function");
    });
}

TEST_CASE("gather and scatter") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
        for (int root = 0; root < world.size(); ++root) {
            const bool is_root = world.rank() == root;
            const Matrix mine{(r * 3) % 4, 2, 100.0 * world.rank()};  // 0 ... 3 rows
            Matrix all, back{(r * 3) % 4, 2};
            hvd::gather(world, mine, all, root);
            if (is_root) {
                std::size_t at = 0;
                for (std::size_t from = 0; from < p; ++from)
                    for (std::size_t i = 0; i < (from * 3) % 4 * 2; ++i)
                        expect(all.elements.at(at++) == 100.0 * static_cast<double>(from) + static_cast<double>(i),
                               "gather");
                expect(at == all.elements.size(), "no more");
            } else {
                expect(all.elements.empty(), "outputs of other ranks are not used");
            }
            hvd::scatter(world, all, back, root);  // by the lengths of the outputs
            expect(back.elements == mine.elements, "scatter gives back what gather took");
            Matrix by_counts{9, 2};
            std::vector<std::size_t> counts(p);
            for (std::size_t i = 0; i < p; ++i) counts[i] = (i * 3) % 4;
            hvd::scatter(world, all, counts, by_counts, root);
            expect(by_counts.elements == mine.elements, "scatter by counts");
            std::vector<int> even, source(is_root ? 3 * p + 1 : 0, 4);
            hvd::scatter(world, source, even, root);  // empty outputs: shares that differ by at most one
            expect(even.size() == (r == 0 ? 4u : 3u), "even shares");
            std::vector<float> much(40000, static_cast<float>(r)), collected;
            hvd::gather(world, much, collected, root);
            expect(!is_root || (collected.size() == 40000 * p && collected.back() == static_cast<float>(p - 1)),
                   "long");
        }
    });
}

TEST_CASE("objects") {
    on_workers(sizes, [](const World& world) {
        for (int root = 0; root < world.size(); ++root) {
            Settings settings;
            if (world.rank() == root) settings = {"root " + std::to_string(root), {{1, 2}, {}, {3}}, root};
            hvd::broadcast_object(world, settings, root);
            expect(settings.name == "root " + std::to_string(root) && settings.layers.size() == 3 &&
                       settings.layers[2][0] == 3 && settings.depth == root,
                   "serialize");
            std::string word(world.rank() == root ? 100000 : 3, 'x');
            hvd::broadcast_object(world, word, root);
            expect(word.size() == 100000, "a long string");
            std::vector<std::string> words;
            if (world.rank() == root) words = {"a", "", "bcd"};
            hvd::broadcast_object(world, words, root);
            expect(words.size() == 3 && words[2] == "bcd", "a vector of strings");
            Plain plain{world.rank(), 0.5};
            hvd::broadcast_object(world, plain, root);
            expect(plain.a == root, "plain bytes");
        }
        const auto words = hvd::allgather_object(world, std::string(static_cast<std::size_t>(world.rank()), 'y'));
        const auto plains = hvd::allgather_object(world, Plain{world.rank(), 1});
        const auto settings = hvd::allgather_object(world, Settings{std::to_string(world.rank()), {}, world.rank()});
        const auto lists =
            hvd::allgather_object(world, std::vector<std::vector<int>>(static_cast<std::size_t>(world.rank()), {1, 2}));
        for (int r = 0; r < world.size(); ++r) {
            const auto i = static_cast<std::size_t>(r);
            expect(words[i].size() == i && plains[i].a == r && settings[i].name == std::to_string(r) &&
                       lists[i].size() == i,
                   "allgather_object");
        }
    });
}

TEST_CASE("tensors of every kind") {
    on_workers({1, 2, 3}, [](const World& world) {
        const int p = world.size();
        int c_array[3] = {1, 2, 3};
        hvd::allreduce(world, c_array);
        std::array<std::uint8_t, 2> array{1, 2};
        hvd::allreduce(world, array);
        std::vector<double> vector(4, 1);
        hvd::allreduce(world, std::span{vector}.subspan(1, 2));  // a temporary view, in place
        const std::span<double> constant_view{vector};
        hvd::allreduce(world, constant_view, hvd::max);
        hvd::broadcast(world, constant_view, 0);
        float number = 1;
        hvd::allreduce(world, std::span{&number, 1});
        Fixed fixed{3}, other{3};
        fixed.elements[2] = 5;
        hvd::allreduce(world, fixed);
        const Fixed& constant = fixed;
        hvd::allreduce(world, constant, other, hvd::max);
        std::vector<double> into;
        hvd::allreduce(world, fixed, into, hvd::sum);  // another class with the same scalar
        bool flags[2] = {world.rank() == 0, true};
        hvd::allreduce(world, flags, hvd::max);
        long long wide[1] = {1};
        char letters[2] = {1, 2};
        wchar_t odd[1] = {1};
        hvd::allreduce(world, wide);
        hvd::allreduce(world, letters);
        hvd::allreduce(world, odd);
        expect(c_array[2] == 3 * p && array[1] == 2 * p && vector[0] == 1 && vector[1] == p &&
                   number == static_cast<float>(p),
               "plain ranges");
        expect(fixed.elements[2] == 5 * p && other.elements[2] == 5 * p && into[2] == 5 * p * p, "classes");
        expect(flags[0] && flags[1] && wide[0] == p && letters[1] == 2 * p && odd[0] == p, "scalars");
    });
}

TEST_CASE("barrier: nobody leaves before the last has come") {
    on_workers({2, 3, 5, 8}, [](const World& world) {
        static std::atomic<int> come{0};
        if (world.rank() == 0) come = 0;
        hvd::barrier(world);
        for (int round = 1; round <= 50; ++round) {
            if (world.rank() == round % world.size())
                for (int i = 0; i < 100; ++i) ::sched_yield();  // late
            ++come;
            hvd::barrier(world);
            expect(come >= round * world.size(), "a rank left the barrier too early");
            hvd::barrier_async(world).wait();
        }
    });
}
