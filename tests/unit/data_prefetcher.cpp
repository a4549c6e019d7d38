// Prefetcher: in order, bounded, its errors reach the consumer, and it always ends.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <hvd/data/prefetcher.hpp>
#include <hvd/data/sharded_dataset.hpp>

using hvd::Prefetcher;

namespace {

struct World {
    int rank() const { return 0; }
    int size() const { return 1; }
};

struct Numbers {
    std::size_t count;
    std::size_t size() const { return count; }
    std::size_t operator[](std::size_t i) const { return i; }
};

void short_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds{1}); }

}  // namespace

TEST_CASE("items come in order, from any number of threads") {
    const Numbers items{200};
    for (std::size_t threads : {0u, 1u, 2u, 7u})
        for (std::size_t depth : {1u, 2u, 5u, 300u}) {
            Prefetcher loader{items,
                              [](std::size_t i) {
                                  if (i % 17 == 0) std::this_thread::yield();
                                  return std::make_unique<std::size_t>(i * i);
                              },
                              {.threads = threads, .depth = depth}};
            std::size_t expected = 0;
            for (auto& item : loader) {
                REQUIRE(*item == expected * expected);
                ++expected;
            }
            CHECK(expected == 200);
            CHECK(loader.next() == nullptr);
        }
}

TEST_CASE("no more is read ahead than the depth") {
    const Numbers items{50};
    std::atomic<std::size_t> begun = 0;
    Prefetcher loader{items, [&](std::size_t i) { return ++begun, i; }, {.threads = 3, .depth = 4}};
    for (std::size_t i = 0; i < 50; ++i) {
        REQUIRE(loader.next() != nullptr);
        short_sleep();
        REQUIRE(begun <= i + 1 + 4);
    }
}

TEST_CASE("reading goes on in the background, in several threads at once") {
    const Numbers items{3};
    std::atomic<int> inside = 0;
    Prefetcher loader{items,
                      [&](std::size_t i) {
                          ++inside;
                          while (inside < 3) short_sleep();  // only ends if all three are read at the same time
                          return i;
                      },
                      {.threads = 3, .depth = 3}};
    std::size_t sum = 0;
    for (std::size_t i : loader) sum += i;
    CHECK(sum == 3);
}

TEST_CASE("an error comes when its item's turn comes, and those behind it can still be had") {
    const Numbers items{10};
    for (std::size_t threads : {0u, 1u, 3u}) {
        Prefetcher loader{items,
                          [](std::size_t i) {
                              if (i == 4) throw std::runtime_error{"four"};
                              return i;
                          },
                          {.threads = threads, .depth = 3}};
        std::size_t count = 0;
        CHECK_THROWS_WITH(
            [&] {
                for (std::size_t i : loader) CHECK(i == count++);
            }(),
            "four");
        CHECK(count == 4);
        CHECK(*loader.next() == 5);
    }
}

TEST_CASE("it may be destroyed at any time") {
    const Numbers items{1000};
    for (std::size_t taken = 0; taken < 20; ++taken) {
        std::atomic<std::size_t> begun = 0;
        {
            Prefetcher loader{items, [&](std::size_t i) { return ++begun, i; }, {.threads = 2, .depth = 5}};
            for (std::size_t i = 0; i < taken; ++i) loader.next();
        }
        CHECK(begun <= taken + 5);
    }
    const Numbers none{0};
    CHECK(Prefetcher{none}.next() == nullptr);
    CHECK_THROWS_AS((Prefetcher{none, {.depth = 0}}), hvd::UsageError);
}

TEST_CASE("an epoch is loaded ahead, and the position counts what was handed out") {
    const std::vector<int> set = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90};
    hvd::ShardedDataset data{set, World{}, {.batch_size = 3, .seed = 2, .last = hvd::Last::Uneven}};
    std::vector<std::size_t> expected;
    for (auto batch : data.epoch(1)) expected.insert(expected.end(), batch.indices().begin(), batch.indices().end());

    std::vector<std::size_t> indices;
    std::size_t used = 0;
    for (auto& batch : Prefetcher{data.epoch(1), {.threads = 2, .depth = 4}}) {
        used += batch.size();
        CHECK(data.state().position == used);
        CHECK(data.state().epoch == 1);
        for (std::size_t i = 0; i < batch.size(); ++i) CHECK(batch[i] == static_cast<int>(batch.indices()[i]) * 10);
        indices.insert(indices.end(), batch.indices().begin(), batch.indices().end());
        short_sleep();
    }
    CHECK(indices == expected);
}
