// What algorithms send, counted by a transport; checks are off, so that nothing else is sent.
#include "workers.hpp"

#include <hvd/testing/counting_transport.hpp>

namespace {

using Counting = hvd::testing::Counting<hvd::Local>;

// What this rank sends for an allreduce of n floats.
template <class A>
hvd::testing::Traffic traffic(const World& world, A algorithm, std::size_t n) {
    Counting counting{world.transport()};
    const hvd::Communicator comm{counting, algorithm, {.checks = false}};
    std::vector<float> x(n, 1);
    hvd::allreduce(comm, x);  // prepares
    counting.reset();
    hvd::allreduce(comm, x);
    expect(n == 0 || x[n - 1] == static_cast<float>(world.size() * world.size()), "the result");
    const auto result = counting.traffic();
    hvd::barrier(world);
    return result;
}

std::size_t log2_up(std::size_t p) {
    std::size_t log = 0;
    while ((std::size_t{1} << log) < p) ++log;
    return log;
}

const std::vector<int> sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16};

}  // namespace

TEST_CASE("Ring") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        const std::size_t n = 60 * p;
        const auto sent = traffic(world, hvd::Ring{}, n);
        expect(sent.messages == 2 * (p - 1), "2(p-1) messages");
        expect(sent.bytes == 2 * (p - 1) * n / p * sizeof(float), "2(p-1)/p n bytes, exactly");
    });
}

TEST_CASE("Tree") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        const auto sent = traffic(world, hvd::Tree{}, 100);
        expect(sent.messages <= 2 * log2_up(p), "at most 2 ceil(log2 p) messages");
        expect(sent.bytes == sent.messages * 400, "n to the parent and to each child");
        hvd::Tree two_trees;
        two_trees.double_from = 1;
        const auto sent_by_two = traffic(world, two_trees, 10000);
        expect(sent_by_two.bytes <= (p < 3 ? 1u : 2u) * 40000, "no rank sends more than 2 n bytes");
    });
}

TEST_CASE("HalvingDoubling") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        const std::size_t n = 16 * p;
        const auto sent = traffic(world, hvd::HalvingDoubling{}, n);
        const bool is_power = (p & (p - 1)) == 0;
        if (is_power) {
            expect(sent.messages == 2 * log2_up(p), "2 log2 p messages");
            expect(sent.bytes == 2 * (p - 1) * n / p * sizeof(float), "2(p-1)/p n bytes");
        } else {
            expect(sent.messages <= 2 * log2_up(p) + 2, "two more");
            expect(sent.bytes <= 2 * (p - 1) * n / p * sizeof(float) + 2 * n * sizeof(float), "2 n more");
        }
    });
}

TEST_CASE("Hierarchical: between nodes 2(N-1)/N n/l bytes per rank") {
    for (int per_node : {1, 2, 3, 4}) {
        on_workers(
            {per_node, 2 * per_node, 3 * per_node, 4 * per_node},
            [per_node](const World& world) {
                const auto l = static_cast<std::size_t>(per_node), nodes = static_cast<std::size_t>(world.size()) / l;
                const std::size_t n = 48 * l * nodes;
                const auto sent = traffic(world, hvd::Hierarchical{hvd::Ring{}, hvd::Ring{}}, n);
                expect(sent.bytes_between_nodes == 2 * (nodes - 1) * n / nodes / l * sizeof(float), "between nodes");
                expect(sent.messages_between_nodes == 2 * (nodes - 1), "messages between nodes");
                expect(sent.bytes - sent.bytes_between_nodes == 2 * (l - 1) * n / l * sizeof(float), "inside nodes");
            },
            {.ranks_per_node = per_node});
    }
}

TEST_CASE("what checks cost: one short exchange, at most ceil(log2 p) + 2 messages per call") {
    on_workers({2, 3, 4, 5, 8}, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        Counting counting{world.transport()};
        const hvd::Communicator comm{counting, hvd::Ring{}};
        std::vector<float> x(100 * p, 1);
        counting.reset();
        hvd::allreduce(comm, x);
        expect(counting.traffic().messages <= 2 * (p - 1) + log2_up(p) + 2, "messages");
        expect(counting.traffic().bytes <= 2 * (p - 1) * 400 + 64 * (log2_up(p) + 2), "bytes");
        hvd::barrier(world);
    });
}
