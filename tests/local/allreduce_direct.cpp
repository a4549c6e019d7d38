// Direct: allreduce through the memory of a node, alone and as the inner part of Hierarchical.
#include "every_algorithm.hpp"
#include "sweep.hpp"

namespace {

using DirectRing = hvd::Hierarchical<hvd::Direct, hvd::Ring>;
using DirectHalving = hvd::Hierarchical<hvd::Direct, hvd::HalvingDoubling>;

using Tried = OneOf<hvd::Direct, DirectRing, DirectHalving>;
using Few =
    hvd::testing::Elements<std::int8_t, std::uint64_t, hvd::float16, hvd::bfloat16, double, std::complex<float>>;

}  // namespace

TEST_CASE("direct") {
    sweep([](auto& world) { check_algorithm<Few>(world, Tried::with(hvd::Direct{})); }, all_sizes);
}

TEST_CASE("direct in small slots") {
    const hvd::testing::AlgorithmSuiteOptions options{.lengths = {0, 1, 63, 64, 65, 4096, 100003},
                                                      .type_lengths = {1, 1000, 5000}};
    sweep(
        [&](auto& world) {
            check_algorithm<Few>(world, Tried::with(hvd::Direct{.slot_bytes = 4096, .slots = 2}), options);
        },
        {2, 3, 4, 7, 16});
}

TEST_CASE("direct inside nodes") {
    for (int per_node : {1, 2, 3, 4}) {
        CAPTURE(per_node);
        sweep([](auto& world) { check_algorithm<Few>(world, Tried::with(DirectRing{})); }, {2, 3, 4, 5, 8, 9},
              per_node);
        sweep([](auto& world) { check_algorithm<Few>(world, Tried::with(DirectHalving{})); }, {4, 7}, per_node);
    }
}

TEST_CASE("many blocks, one between nodes while others are inside") {
    const hvd::testing::AlgorithmSuiteOptions options{.lengths = {0, 1, 63, 64, 65, 129, 1000, 4913},
                                                      .type_lengths = {1, 1000}};
    for (int per_node : {2, 3}) {
        CAPTURE(per_node);
        sweep(
            [&](auto& world) {
                check_algorithm<Few>(world, Tried::with(DirectRing{.block_bytes = 256}), options);
                check_algorithm<Few>(world, Tried::with(DirectHalving{.block_bytes = 1024}), options);
            },
            {2, 3, 4, 5, 8}, per_node);
    }
}
