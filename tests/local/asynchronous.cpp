// Requests: many at once, waited for in different orders, on several communicators, moved, dropped, unwound.
#include "workers.hpp"

#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <optional>
#include <thread>

namespace {

const std::vector<int> sizes{1, 2, 3, 4, 5, 8};

// A fixed order of 0 ... n-1 that is another one on each rank.
std::vector<std::size_t> order(int rank, std::size_t n) {
    std::vector<std::size_t> result(n);
    for (std::size_t i = 0; i < n; ++i) result[i] = i;
    for (std::size_t i = n; i > 1; --i) std::swap(result[i - 1], result[hvd::testing::scrambled(rank, i) % i]);
    return result;
}

long sum_to(int p) { return long{p} * (p - 1) / 2; }

}  // namespace

TEST_CASE("many requests, waited for in another order on every rank") {
    on_workers(sizes, [](const World& world) {
        constexpr std::size_t count = 40;
        for (int round = 0; round < 3; ++round) {
            std::vector<std::vector<long>> data;
            for (std::size_t i = 0; i < count; ++i)
                data.emplace_back(i % 7 == 0 ? 30000 + i : i * 13, world.rank() + static_cast<long>(i));
            std::vector<hvd::Request> requests;
            for (auto& x : data) requests.push_back(hvd::allreduce_async(world, x));
            for (std::size_t i : order(world.rank() + round, count)) requests[i].wait();
            for (std::size_t i = 0; i < count; ++i)
                for (long x : data[i])
                    expect(x == sum_to(world.size()) + static_cast<long>(i) * world.size(), "a sum among many");
        }
    });
}

TEST_CASE("every algorithm has several under way") {
    on_workers({2, 3, 5},
               [](const World& world) {
                   const auto try_with = [&](const auto& comm) {
                       std::vector<std::vector<float>> data;
                       for (std::size_t i = 0; i < 12; ++i) data.emplace_back(1 + i * 700, static_cast<float>(i));
                       std::vector<hvd::Request> requests;
                       for (auto& x : data) requests.push_back(hvd::allreduce_async(comm, x));
                       std::vector<float> blocking(100, 1);  // in between
                       hvd::allreduce(comm, blocking);
                       expect(blocking[99] == static_cast<float>(comm.size()),
                              "a blocking call among asynchronous ones");
                       for (std::size_t i : order(comm.rank(), requests.size())) requests[i].wait();
                       for (std::size_t i = 0; i < data.size(); ++i)
                           expect(data[i].back() == static_cast<float>(i) * static_cast<float>(comm.size()),
                                  "a sum among many");
                   };
                   try_with(world.with(hvd::Ring{}));
                   try_with(world.with(hvd::Tree{}));
                   try_with(world.with(hvd::HalvingDoubling{}));
                   try_with(world.with(hvd::Native{}));
                   try_with(world.with(hvd::Hierarchical{hvd::Ring{}, hvd::Tree{}}));
                   try_with(world.with(hvd::Hierarchical{hvd::Native{}, hvd::Ring{}}));
               },
               {.ranks_per_node = 2});
}

TEST_CASE("all kinds of request together") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
        const int rank = world.rank(), last = world.size() - 1;
        std::vector<int> reduced(5, rank), cast(70000, rank), part, gathered, all, dealt, exchanged, one(3, rank),
            rows(r + 1, rank);
        const std::vector<int> wide(2 * p + 1, 1), sent(2 * p, rank);
        std::vector<std::size_t> received;
        const std::vector<std::size_t> twos(p, 2);
        std::vector<float> a(9, 1);
        std::vector<double> b(4, 2);
        std::vector<hvd::Request> requests;
        requests.push_back(hvd::allreduce_async(world, reduced));
        requests.push_back(hvd::broadcast_async(world, cast, last));
        requests.push_back(hvd::reduce_scatter_async(world, wide, part));
        requests.push_back(hvd::gather_async(world, rows, gathered, 0));
        requests.push_back(hvd::allgather_async(world, rows, all));
        requests.push_back(hvd::alltoall_async(world, sent, twos, exchanged, received));
        requests.push_back(hvd::scatter_async(world, wide, dealt, 0));
        requests.push_back(hvd::reduce_async(world, one, last, hvd::max));
        requests.push_back(hvd::barrier_async(world));
        requests.push_back(hvd::allreduce_async(world, std::tie(a, b)));
        for (std::size_t i : order(rank, requests.size())) requests[i].wait();
        expect(reduced[4] == sum_to(world.size()), "allreduce");
        expect(cast[69999] == last, "broadcast");
        expect(part.size() == 2 + (r == 0 ? 1u : 0u) && part[0] == world.size(), "reduce_scatter");
        expect(all.size() == p * (p + 1) / 2 && all.back() == last, "allgather");
        expect(rank != 0 || gathered == all, "gather");
        expect(received == twos && exchanged[2 * p - 1] == last, "alltoall");
        expect(dealt.size() == part.size() && dealt[0] == 1, "scatter");
        expect(rank != last || one[2] == last, "reduce");
        expect(a[8] == static_cast<float>(p) && b[3] == 2.0 * world.size(), "group");
    });
}

TEST_CASE("views need not outlive the call, only what they show") {
    on_workers({1, 2, 3}, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        const int rank = world.rank();
        std::vector<int> one(5, rank + 1), whole(5 * p, rank + 1), all(5 * p), sum(5), exchanged(5 * p), up(5 * p),
            down(5);
        std::vector<std::size_t> counts(p, 5), received;
        std::span<int> in{one}, wide{whole}, out[5] = {all, sum, exchanged, up, down};
        std::vector<hvd::Request> requests;
        requests.push_back(hvd::allgather_async(world, in, out[0]));
        requests.push_back(hvd::reduce_scatter_async(world, wide, out[1]));
        requests.push_back(hvd::alltoall_async(world, wide, counts, out[2], received));
        requests.push_back(hvd::gather_async(world, in, out[3], 0));
        requests.push_back(hvd::scatter_async(world, wide, out[4], 0));
        std::vector<int> nothing;
        in = wide = nothing;
        for (auto& view : out) view = nothing;
        for (auto& request : requests) request.wait();
        expect(all.back() == world.size() && exchanged.back() == world.size(), "from the last rank");
        expect(sum[4] == sum_to(world.size()) + world.size(), "a sum");
        expect(down[4] == 1 && (rank != 0 || up.back() == world.size()), "from and to the root");
    });
}

TEST_CASE("communicators whose requests are waited for in different orders do not hold each other up") {
    on_workers({2, 3, 4, 6, 8}, [](const World& world) {
        const int rank = world.rank(), p = world.size();
        const auto rows = world.split(rank / 2, rank);
        const auto columns = world.split(rank % 2, -rank);
        const auto half = world.subset({1, 0});
        for (int round = 0; round < 10; ++round) {
            std::vector<long> a(static_cast<std::size_t>(1 + round * 900), 1), b = a, c = a, d = a;
            // Each rank begins and ends them in an order of its own.
            std::array<hvd::Request, 4> requests;
            for (std::size_t i : order(rank + round, 4)) {
                if (i == 0) requests[i] = hvd::allreduce_async(world, a);
                if (i == 1) requests[i] = hvd::allreduce_async(rows, b);
                if (i == 2) requests[i] = hvd::allreduce_async(columns, c);
                if (i == 3 && half.is_member()) requests[i] = hvd::allreduce_async(half, d);
            }
            for (std::size_t i : order(rank * 3 + round, 4)) requests[i].wait();
            expect(a.back() == p && b.back() == rows.size() && c.back() == columns.size(),
                   "sums on three communicators");
            expect(d.back() == (half.is_member() ? 2 : 1), "the sum on a subset");
        }
    });
}

TEST_CASE("ready() makes progress, wait() may be repeated, requests move") {
    on_workers(sizes, [](const World& world) {
        hvd::Request none;
        expect(none.ready(), "a request of nothing is ready");
        none.wait();
        none.get();
        for (std::size_t n : {0u, 1u, 20000u}) {
            std::vector<int> x(n, 1), y(n, 2);
            hvd::Request first = hvd::allreduce_async(world, x), second = hvd::allreduce_async(world, y);
            while (!second.ready()) {
            }
            hvd::Request moved = std::move(first);
            expect(first.ready(), "a request that was moved from is of nothing");
            first.wait();
            moved.wait();
            moved.wait();
            moved.get();
            expect(moved.ready(), "ready after wait");
            second.wait();
            for (int e : x) expect(e == world.size(), "x");
            for (int e : y) expect(e == 2 * world.size(), "y");
            // Assigning to an unfinished one ends it first.
            std::vector<int> u(n, 1), v(n, 1);
            hvd::Request request = hvd::allreduce_async(world, u);
            request = hvd::allreduce_async(world, v);
            for (int e : u) expect(e == world.size(), "the request that was replaced is complete");
            request.wait();
        }
    });
}

TEST_CASE("a request may outlive the communicators that it came from") {
    on_workers({2, 3, 4}, [](const World& world) {
        std::vector<int> x(10000, 1), y(10000, 1);
        hvd::Request on_ring, on_part;
        {
            const auto ring = world.with(hvd::Ring{});
            on_ring = hvd::allreduce_async(ring, x);
            const auto part = world.split(world.rank() % 2);
            on_part = hvd::allreduce_async(part.with(hvd::Tree{}), y);
        }
        on_part.wait();
        on_ring.wait();
        expect(x[0] == world.size() && y[0] == (world.size() + 1 - world.rank() % 2) / 2, "sums");
    });
}

TEST_CASE("destroying an unfinished request waits for it") {
    on_workers(sizes, [](const World& world) {
        for (std::size_t n : {3u, 60000u}) {
            std::vector<int> x(n, 1);
            { const hvd::Request dropped = hvd::allreduce_async(world, x); }
            for (int e : x) expect(e == world.size(), "complete after the request is gone");
        }
    });
}

TEST_CASE("an exception on its way withdraws unfinished requests and gets out") {
    on_workers({2, 3, 5}, [](const World& world) {
        // The other ranks never make the call that rank 0 leaves, so waiting for it would be for ever.
        const auto own = world.subset({0, 1});
        if (world.rank() == 0) {
            auto x = std::make_unique<std::vector<float>>(100000, 1.0f);
            bool out = false;
            try {
                const hvd::Request request = hvd::allreduce_async(own, *x);
                throw std::logic_error{"the cause"};
            } catch (const std::logic_error& e) {
                out = std::string{e.what()} == "the cause";
            }
            expect(out, "the cause gets out");
            x.reset();  // nothing may touch it any more
        }
        expect_works(world);
    });
}

TEST_CASE("an exception on one rank while requests are under way ends the job with its cause") {
    for (int workers : {2, 3, 5}) {
        std::atomic<int> inside{0}, told{0};
        CHECK(hvd::launch<hvd::Local>(workers, [&](auto& world) {
                  std::vector<float> x(200000, 1), y(5, 1);
                  ++inside;
                  if (world.rank() == 1) {
                      hvd::Request request = hvd::allreduce_async(world, x);
                      while (inside < workers) std::this_thread::yield();  // or some meet the failure before the body
                      throw std::runtime_error{"thrown on purpose"};
                  }
                  try {
                      hvd::Request first = hvd::allreduce_async(world, x), second = hvd::allreduce_async(world, y);
                      second.wait();
                      first.wait();
                  } catch (const hvd::PeerFailure& failure) {
                      if (failure.rank() == 1 &&
                          std::string{failure.what()}.find("thrown on purpose") != std::string::npos)
                          ++told;
                      throw;
                  }
              }) == 1);
        CHECK(told == workers - 1);
    }
}

TEST_CASE("a request is carried on by the waits of other calls") {
    on_workers({2, 4}, [](const World& world) {
        // Rank 0 looks after its first request only at the end; the others need its part of it before.
        const auto others = world.subset({1, 0});
        std::vector<int> x(50000, 1), y(10, 1);
        hvd::Request request = hvd::allreduce_async(world, x);
        if (world.rank() != 0) request.wait();
        if (others.is_member()) hvd::allreduce(others, y);
        request.wait();
        expect(x[0] == world.size(), "sum");
    });
}
