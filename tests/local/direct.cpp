// What only Direct has: it refuses several nodes, meets odd elements and addresses, and knows shared arrays.
#include <algorithm>

#include "sweep.hpp"

namespace {

struct TwelveBytes {  // does not fill lines of 64 bytes
    std::int32_t x, y, z;
};

struct Add {
    TwelveBytes operator()(TwelveBytes a, TwelveBytes b) const { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
};

}  // namespace

template <>
inline constexpr bool hvd::enable_scalar<TwelveBytes> = true;

TEST_CASE("direct refuses ranks on several nodes, and slots that are too small") {
    CHECK(hvd::launch<hvd::Local>({.workers = 4, .ranks_per_node = 2}, [](auto& world) {
              hvd::testing::expect_throws<hvd::UsageError>([&] { world.with(hvd::Direct{}); });
              std::vector<int> x(3, 1);
              hvd::allreduce(world, x);
              hvd::testing::expect(x[2] == 4, "the world works afterwards");
          }) == 0);
    CHECK(hvd::launch<hvd::Local>(3, [](auto& world) {
              hvd::testing::expect_throws<hvd::UsageError>([&] { world.with(hvd::Direct{.slot_bytes = 64}); });
              hvd::testing::expect_throws<hvd::UsageError>([&] { world.with(hvd::Direct{.slots = 1}); });
          }) == 0);
}

TEST_CASE("elements that do not fill lines, and tensors that begin anywhere") {
    sweep(
        [](auto& world) {
            const auto direct = world.with(hvd::Direct{});
            const int p = world.size();
            for (std::size_t n : {1u, 5u, 16u, 1000u, 30001u}) {
                std::vector<TwelveBytes> x(n);
                for (std::size_t i = 0; i < n; ++i) x[i] = {world.rank(), static_cast<int>(i), 1};
                hvd::allreduce(direct, x, Add{});
                for (std::size_t i = 0; i < n; ++i)
                    hvd::testing::expect(x[i].x == p * (p - 1) / 2 && x[i].y == static_cast<int>(i) * p && x[i].z == p,
                                         "sums");
                std::vector<std::int16_t> y(n + 8, 7);
                const auto offset = static_cast<std::size_t>(world.rank()) % 5;  // another one on each rank
                hvd::allreduce(direct, std::span{y.data() + offset, n});
                for (std::size_t i = 0; i < n + 8; ++i)
                    hvd::testing::expect(y[i] == (i >= offset && i < offset + n ? 7 * p : 7),
                                         "only the span is touched");
            }
        },
        {2, 3, 5, 8});
}

TEST_CASE("shared arrays") {
    sweep(
        [](auto& world) {
            const auto direct = world.with(hvd::Direct{});
            const int p = world.size();
            for (std::size_t n : {0u, 1u, 3000u, 400000u}) {
                auto shared = world.template allocate_shared<float>(n);
                hvd::testing::expect(shared.size() == n && shared.empty() == (n == 0), "size");
                for (float e : shared) hvd::testing::expect(e == 0, "zero at first");
                for (std::size_t i = 0; i < n; ++i) shared[i] = static_cast<float>(world.rank());
                hvd::allreduce(direct, shared);
                for (float e : shared) hvd::testing::expect(e == static_cast<float>(p * (p - 1) / 2), "sum");
                // Some ranks with a shared tensor, others with their own.
                std::vector<float> own(n, 1);
                std::fill(shared.begin(), shared.end(), 1.0f);
                if (world.rank() % 2 == 0) hvd::allreduce(direct, shared);
                else hvd::allreduce(direct, own);
                hvd::testing::expect(
                    n == 0 || (world.rank() % 2 == 0 ? shared[n - 1] : own[n - 1]) == static_cast<float>(p), "mixed");
            }
            // Lengths may differ; the array outlives the communicator that made it.
            auto part = world.split(world.rank() % 2)
                            .template allocate_shared<int>(static_cast<std::size_t>(world.rank()) * 1000);
            std::fill(part.begin(), part.end(), 5);
            hvd::barrier(world);
            for (int e : part) hvd::testing::expect(e == 5, "nobody else writes to it");
        },
        {1, 2, 3, 4, 8});
}

TEST_CASE("what the default algorithm has is there for all collectives") {
    CHECK(hvd::launch<hvd::Local>(2, [](auto& world) {
              hvd::testing::expect(world.context().direct != nullptr, "collectives go through memory");
          }) == 0);
}

TEST_CASE("ranks that read slowly say so, and take it back") {
    CHECK(hvd::launch<hvd::Local>(2, [](auto& world) {
              const auto direct = world.with(hvd::Direct{});
              auto& state = *hvd::detail::direct_state_of(direct.algorithm_state());
              constexpr std::size_t bytes = 65536;
              const auto read = [&](auto&& work) { hvd::detail::DirectPace::measure(state, 1, bytes, work); };
              const auto crawls = [&] { return state.counters(world.rank()).copied_out.note.load() != 0; };
              const auto slow = [] {
                  const auto end = hvd::detail::Clock::now() + std::chrono::milliseconds{1};
                  while (hvd::detail::Clock::now() < end) {
                  }
              };
              for (int i = 0; i < 2; ++i) read(slow);
              hvd::testing::expect(crawls(), "65 MB/s are slow");
              for (int i = 0; i < 100'000 && crawls(); ++i) read([] {});
              hvd::testing::expect(!crawls(), "no time at all is fast");
          }) == 0);
}

TEST_CASE("more ranks than inputs are usual") {
    sweep(
        [](auto& world) {
            const auto direct = world.with(hvd::Direct{});
            const int p = world.size();
            for (std::size_t n : {3u, 1000u, 20000u}) {
                std::vector<float> x(n, static_cast<float>(world.rank() + 1));
                hvd::allreduce(direct, x);
                for (float e : x) hvd::testing::expect(e == static_cast<float>(p * (p + 1) / 2), "sums");
                // 256 halves of the last place of 256: rounded at each step they would be lost.
                std::vector<hvd::bfloat16> y(n, world.rank() == 0 ? hvd::bfloat16{256.0f} : hvd::bfloat16{1.0f});
                hvd::allreduce(direct, y);
                const auto sum = static_cast<float>(hvd::bfloat16{static_cast<float>(255 + p)});
                for (hvd::bfloat16 e : y) hvd::testing::expect(static_cast<float>(e) == sum, "rounded once");
            }
        },
        {64, 65, 66, 130});
}
