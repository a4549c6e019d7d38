// More than 2^31 elements. Needs 5 GiB.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hvd/hvd.hpp>
#include <hvd/testing/expect.hpp>

namespace hvd_test {
void alive();
}

TEST_CASE("2^31 + 10 elements") {
    constexpr std::size_t n = (std::size_t{1} << 31) + 10;
    CHECK(hvd::launch<hvd::Local>(2, [](auto& world) {
              const std::unique_ptr<std::int8_t[]> data{new std::int8_t[n]};
              const std::span<std::int8_t> x{data.get(), n};
              const auto mine = static_cast<std::int8_t>(world.rank() + 1);
              std::fill(x.begin(), x.end(), mine);
              // Where an index of 32 bits, or of 31, would go wrong.
              const std::size_t places[] = {0, 9, 10, n / 2 - 1, n / 2, n / 2 + 1, (n - 10) - 1, n - 10, n - 9, n - 1};
              for (std::size_t i : places) x[i] = static_cast<std::int8_t>(mine * 10 + static_cast<int>(i % 7));
              hvd_test::alive();
              const auto check = [&](int factor, int times, const char* what) {
                  for (std::size_t i : places)
                      hvd::testing::expect(x[i] == 10 * factor + times * static_cast<int>(i % 7), what);
                  for (std::size_t i = 11; i < n / 2 - 1; i += 999983) hvd::testing::expect(x[i] == factor, what);
                  hvd_test::alive();
              };
              hvd::allreduce(world, x);
              check(3, 2, "allreduce");
              const auto ring = world.with(hvd::Ring{});
              hvd::allreduce(ring, x, hvd::max);
              check(3, 2, "allreduce around a ring");
              if (world.rank() == 0) std::fill(x.begin(), x.end(), std::int8_t{0});
              hvd::broadcast(world, x, 1);
              check(3, 2, "broadcast");
          }) == 0);
}
