// The transport between threads, run through the public suite; and transports made from it.
#include "workers.hpp"

#include <hvd/testing/counting_transport.hpp>
#include <hvd/testing/transport_suite.hpp>

TEST_CASE("Local") {
    for (int per_node : {0, 1, 2, 3}) {
        CAPTURE(per_node);
        on_workers({1, 2, 3, 4, 5, 8},
                   [](const World& world) {
                       hvd::testing::check_transport(world.transport());
                       expect_works(world);
                   },
                   {.ranks_per_node = per_node});
    }
}

TEST_CASE("Counting") {
    on_workers({1, 2, 3, 5},
               [](const World& world) {
                   hvd::testing::Counting counting{world.transport()};
                   hvd::testing::check_transport(counting);
                   expect((counting.traffic().messages > 0) == (world.size() > 1), "messages are counted");
                   counting.reset();
                   expect(counting.traffic() == hvd::testing::Traffic{}, "reset");
               },
               {.ranks_per_node = 2});
}

TEST_CASE("subgroups of subgroups") {
    on_workers({4, 7}, [](const World& world) {
        std::vector<int> first{2, 0, 1, 3};
        hvd::barrier(world);
        if (world.rank() < 4) {
            hvd::Local group = world.transport().subgroup(first, 100);
            hvd::testing::check_transport(group, 5000);
            std::vector<int> two{group.rank() / 2 * 2 + 1, group.rank() / 2 * 2};
            hvd::Local pair = group.subgroup(two, 101);
            hvd::testing::check_transport(pair, 5000);
        }
        expect_works(world);
    });
}
