// Splits and subsets: order, nodes, concurrent use, and many of them.
#include "workers.hpp"

namespace {

const std::vector<int> sizes{1, 2, 3, 4, 5, 7, 8};

}  // namespace

TEST_CASE("split: colors, keys, order") {
    on_workers(sizes, [](const World& world) {
        const int rank = world.rank(), p = world.size();
        const auto parity = world.split(rank % 2, rank);
        expect(parity.is_member() && parity.size() == (p + 1 - rank % 2) / 2 && parity.rank() == rank / 2, "by parity");
        const auto backward = world.split(0, -rank);
        expect(backward.size() == p && backward.rank() == p - 1 - rank, "keys turn the order");
        const auto same_key = world.split(7);
        expect(same_key.rank() == rank, "equal keys keep the order");
        const auto alone = world.split(rank);
        expect(alone.size() == 1 && alone.rank() == 0, "a color of one");
        const auto some = world.split(rank == 0 ? -1 : 3, 0);
        expect(some.is_member() == (rank != 0) && (rank == 0 || some.size() == p - 1), "a negative color is out");
        for (const auto* comm : {&parity, &backward, &same_key, &alone}) expect_works(*comm);
        if (some.is_member()) expect_works(some);
        // A split of a split, and one of the type of its parent.
        World inner = parity.split(parity.rank() % 2, 0);
        expect_works(inner);
        inner = world;
        expect_works(inner);
    });
}

TEST_CASE("subset: the order given, overlapping ones") {
    on_workers({2, 3, 5, 8}, [](const World& world) {
        const int rank = world.rank(), p = world.size();
        std::vector<int> backward;
        for (int r = p - 1; r >= 0; --r) backward.push_back(r);
        const auto all = world.subset(backward);
        expect(all.rank() == p - 1 - rank && all.size() == p, "keeps the order given");
        std::vector<int> from_first = hvd::allgather(all, std::vector<int>{rank});
        expect(from_first == backward, "results in that order");
        // Neighbours in pairs that overlap: rank r is in {r-1, r} and in {r, r+1}.
        std::vector<World> pairs;
        for (int r = 0; r + 1 < p; ++r) pairs.push_back(world.subset({r, r + 1}));
        for (int r = 0; r + 1 < p; ++r) {
            const auto& pair = pairs[static_cast<std::size_t>(r)];
            expect(pair.is_member() == (rank == r || rank == r + 1), "members");
            if (!pair.is_member()) continue;
            std::vector<int> x(3000, rank);
            hvd::allreduce(pair, x);
            expect(x[2999] == 2 * r + 1, "the sum of a pair");
        }
        // Begun in opposite orders on neighbours.
        std::vector<std::vector<int>> data(pairs.size(), std::vector<int>(2000, 1));
        std::vector<hvd::Request> requests;
        for (std::size_t k = 0; k < pairs.size(); ++k) {
            const std::size_t i = rank % 2 == 0 ? k : pairs.size() - 1 - k;
            if (pairs[i].is_member()) requests.push_back(hvd::allreduce_async(pairs[i], data[i]));
        }
        for (auto& request : requests) request.wait();
        for (std::size_t i = 0; i < pairs.size(); ++i)
            expect(data[i][0] == (pairs[i].is_member() ? 2 : 1), "both overlapping sums");
    });
}

TEST_CASE("even and odd ranks do different things at the same time") {
    on_workers({2, 3, 4, 5, 8}, [](const World& world) {
        const auto half = world.split(world.rank() % 2);
        const int n = half.size();
        for (int round = 0; round < 20; ++round) {
            if (world.rank() % 2 == 0) {
                std::vector<double> x(1000, 1);
                hvd::allreduce(half, x);
                expect(x[0] == n, "even ranks add up");
                hvd::barrier(half);
            } else {
                std::vector<int> y(7, half.rank());
                hvd::broadcast(half, y, n - 1);
                expect(y[6] == n - 1, "odd ranks broadcast");
                const auto words = hvd::allgather_object(half, std::string(3, 'x'));
                expect(static_cast<int>(words.size()) == n, "and gather");
            }
        }
        expect_works(world);
    });
}

TEST_CASE("barriers of disjoint subsets are independent") {
    on_workers({4, 5}, [](const World& world) {
        // Rank 0 and 1 meet often before 2 and 3 do so at all.
        const auto first = world.subset({0, 1}), second = world.subset({2, 3});
        for (int i = 0; i < 20 && first.is_member(); ++i) hvd::barrier(first);
        hvd::barrier(world);
        for (int i = 0; i < 20 && second.is_member(); ++i) hvd::barrier(second);
        hvd::barrier(world);
    });
}

TEST_CASE("nodes are inherited, also uneven ones") {
    on_workers({5},
               [](const World& world) {  // nodes {0, 1}, {2, 3}, {4}
                   const int rank = world.rank();
                   expect(world.local_rank() == rank % 2 && world.local_size() == (rank == 4 ? 1 : 2), "local");
                   expect(world.cross_rank() == rank / 2 && world.cross_size() == (rank % 2 == 0 ? 3 : 2), "cross");
                   expect(!world.is_homogeneous(), "uneven");
                   const auto evens = world.split(rank % 2);
                   expect(evens.local_size() == 1 && evens.cross_size() == evens.size() && evens.is_homogeneous(),
                          "one rank of each node");
                   const auto three = world.subset({3, 0, 2});
                   if (three.is_member()) {
                       expect(three.local_size() == (rank == 0 ? 1 : 2) && three.local_rank() == (rank == 2 ? 1 : 0),
                              "nodes by their old names");
                       std::vector<long> x(100, rank);
                       hvd::allreduce(three.with(hvd::Hierarchical{hvd::Ring{}, hvd::Tree{}}), x);
                       expect(x[99] == 5, "Hierarchical on a subset");
                   }
               },
               {.ranks_per_node = 2});
}

TEST_CASE("many communicators come and go") {
    on_workers({2, 5}, [](const World& world) {
        for (int round = 0; round < 200; ++round) {
            const auto part = world.split((world.rank() + round) % 3);
            std::vector<int> x(static_cast<std::size_t>(round), 1);
            hvd::allreduce(part, x);
            expect(x.empty() || x[0] == part.size(), "sum");
        }
        // More calls than there are tags.
        std::vector<int> y(1);
        for (int round = 0; round < 40000; ++round) {
            y[0] = 1;
            hvd::allreduce(world, y);
        }
        expect(y[0] == world.size(), "after many calls");
    });
}

TEST_CASE("copies are the same group") {
    on_workers({2, 3}, [](const World& world) {
        const World copy = world;
        expect_works(copy);
        expect_works(world);
        std::vector<int> x(10, 1), y(10, 1);
        hvd::Request a = hvd::allreduce_async(copy, x), b = hvd::allreduce_async(world, y);
        b.wait();
        a.wait();
        expect(x[0] == world.size() && y[0] == world.size(), "both");
    });
}
