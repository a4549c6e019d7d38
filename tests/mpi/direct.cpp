// Direct between processes: private tensors through slots, shared arrays in place, and both mixed.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>

namespace {

using Few = hvd::testing::Elements<std::int8_t, hvd::float16, double>;
const hvd::testing::AlgorithmSuiteOptions options{
    .lengths = {0, 1, 17, 4913, 100003, 700001}, .type_lengths = {1, 1000}, .at_once = 5};

}  // namespace

TEST_CASE("private tensors") {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm()}};
    REQUIRE_NOTHROW(hvd::testing::check_algorithm<Few>(world, hvd::Direct{}, options));
    REQUIRE_NOTHROW(hvd::testing::check_algorithm<Few>(world, hvd::Direct{.slot_bytes = 4096, .slots = 2}, options));
}

TEST_CASE("shared arrays, in place and mixed with private tensors") {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm()}, hvd::Direct{}};
    const auto p = static_cast<float>(hvd_test::size());
    for (std::size_t n : {1u, 3000u, 500000u}) {
        auto shared = world.allocate_shared<float>(n);
        std::vector<float> own(n, 1);
        for (int round = 0; round < 3; ++round) {
            std::fill(shared.begin(), shared.end(), 1.0f);
            hvd::allreduce(world, shared);
            REQUIRE(std::all_of(shared.begin(), shared.end(), [&](float x) { return x == p; }));
            std::fill(shared.begin(), shared.end(), 1.0f);
            std::fill(own.begin(), own.end(), 1.0f);
            if ((hvd_test::rank() + round) % 2 == 0) hvd::allreduce(world, shared);
            else hvd::allreduce(world, own);
            const std::span<const float> result =
                (hvd_test::rank() + round) % 2 == 0 ? std::span<const float>{shared.data(), n} : own;
            REQUIRE(std::all_of(result.begin(), result.end(), [&](float x) { return x == p; }));
            if (n > 10) {  // a part of it
                std::fill(shared.begin(), shared.end(), 1.0f);
                hvd::allreduce(world, std::span{shared.data() + 3, n - 10});
                REQUIRE(shared[0] == 1);
                REQUIRE(shared[3] == p);
                REQUIRE(shared[n - 7] == 1);
            }
        }
    }
}

TEST_CASE("arrays outlive the communicators that made them, and communicators their arrays") {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm()}, hvd::Direct{}};
    std::optional<hvd::SharedArray<float>> array;
    {
        const auto other = world.split(0, -hvd_test::rank());  // in another order
        array.emplace(other.allocate_shared<float>(1000));
    }
    std::fill(array->begin(), array->end(), 1.0f);
    hvd::allreduce(world, *array);
    REQUIRE((*array)[999] == static_cast<float>(hvd_test::size()));
    array.emplace(world.allocate_shared<float>(1000));
    std::vector<float> own(1000, 1);
    std::fill(array->begin(), array->end(), 1.0f);
    if (hvd_test::rank() != 0) array.reset();
    const std::span<float> x = array ? std::span{array->data(), 1000} : std::span{own};
    hvd::allreduce(world, x);
    REQUIRE(x[999] == static_cast<float>(hvd_test::size()));
}

TEST_CASE("inside pretended nodes") {
    for (int per_node : {1, 2, 3}) {
        const hvd::Communicator world{hvd::Mpi{hvd_test::comm(), per_node}};
        REQUIRE_NOTHROW(
            hvd::testing::check_algorithm<Few>(world, hvd::Hierarchical{hvd::Direct{}, hvd::Ring{}}, options));
        REQUIRE_NOTHROW(
            hvd::testing::check_algorithm<Few>(world, hvd::Hierarchical{hvd::Direct{}, hvd::Ring{}, 512}, options));
    }
}

TEST_CASE("without shared memory calls are compared by messages") {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm()}, hvd::Ring{}, {.shared_memory = false}};
    std::vector<int> x(10, 1), uneven(static_cast<std::size_t>(hvd_test::rank()) + 1);
    hvd::allreduce(world, x);
    REQUIRE(x[9] == hvd_test::size());
    if (hvd_test::size() > 1) REQUIRE_THROWS_AS(hvd::allreduce(world, uneven), hvd::MismatchError);
    hvd::barrier(world);
}
