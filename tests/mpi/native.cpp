// MPI's own allreduce behind hvd's face: every element type and operation, and beside MPI_Allreduce itself.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>

namespace {

template <class E, class Op>
void same_as_mpi(MPI_Datatype type, MPI_Op mpi_op, const Op& op) {
    const hvd::Communicator native{hvd::Mpi{hvd_test::comm()}, hvd::Native{}};
    const hvd::Communicator usual{hvd::Mpi{hvd_test::comm()}};
    for (std::size_t n : {1u, 17u, 4913u, 70000u}) {
        const hvd::testing::Buffer<E> in{hvd_test::rank(), n}, by_mpi{n}, a{hvd_test::rank(), n},
            b{hvd_test::rank(), n};
        MPI_Allreduce(in.span().data(), by_mpi.span().data(), static_cast<int>(n), type, mpi_op, hvd_test::comm());
        hvd::allreduce(native, a.span(), op);
        hvd::allreduce(usual, b.span(), op);
        bool right = true;
        for (std::size_t i = 0; i < n; ++i) {
            const double want = static_cast<double>(by_mpi.span()[i]);
            const double slack =
                std::integral<E> ? 0 : hvd::testing::tolerance<E>() * hvd_test::size() * 16 * hvd_test::size();
            right = right && std::abs(static_cast<double>(a.span()[i]) - want) <= slack;
            right = right && std::abs(static_cast<double>(b.span()[i]) - want) <= slack;
        }
        CAPTURE(n);
        REQUIRE(right);
    }
}

}  // namespace

TEST_CASE("every element type and operation") {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm()}};
    REQUIRE_NOTHROW(hvd::testing::check_algorithm(world, hvd::Native{}));
}

TEST_CASE("the same as MPI_Allreduce") {
    same_as_mpi<std::int32_t>(MPI_INT32_T, MPI_SUM, hvd::sum);
    same_as_mpi<std::int64_t>(MPI_INT64_T, MPI_MIN, hvd::min);
    same_as_mpi<std::uint16_t>(MPI_UINT16_T, MPI_MAX, hvd::max);
    same_as_mpi<std::int8_t>(MPI_INT8_T, MPI_SUM, hvd::sum);
    same_as_mpi<float>(MPI_FLOAT, MPI_SUM, hvd::sum);
    same_as_mpi<double>(MPI_DOUBLE, MPI_SUM, hvd::sum);
    same_as_mpi<double>(MPI_DOUBLE, MPI_MAX, hvd::max);
}

TEST_CASE("many at once, in other orders on other ranks") {
    const hvd::Communicator world{hvd::Mpi{hvd_test::comm()}, hvd::Native{}};
    std::vector<std::vector<float>> data;
    for (std::size_t i = 0; i < 10; ++i) data.emplace_back(1 + i * 500, static_cast<float>(i));
    std::vector<hvd::Request> requests;
    for (auto& x : data) requests.push_back(hvd::allreduce_async(world, x));
    std::vector<float> between(3, 1);
    hvd::allreduce(world, between);
    for (std::size_t i = 0; i < requests.size(); ++i)
        requests[hvd_test::rank() % 2 == 0 ? i : requests.size() - 1 - i].wait();
    for (std::size_t i = 0; i < data.size(); ++i)
        REQUIRE(data[i].back() == static_cast<float>(i) * static_cast<float>(hvd_test::size()));
}
