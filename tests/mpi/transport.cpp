// The transport over MPI, run through the public suite, on the real node and on pretended ones.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <hvd/hvd.hpp>
#include <hvd/testing/counting_transport.hpp>
#include <hvd/testing/transport_suite.hpp>

TEST_CASE("Mpi") {
    // MPICH reports errors of a completed request to MPI_COMM_WORLD, whose handler is the program's own business.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int per_node : {0, 1, 2, 3}) {
        hvd::Mpi transport{hvd_test::comm(), per_node};
        REQUIRE(transport.size() == hvd_test::size());
        REQUIRE(transport.rank() == hvd_test::rank());
        if (per_node == 0) REQUIRE(transport.topology().nodes() == 1);
        else REQUIRE(transport.topology().nodes() == (hvd_test::size() + per_node - 1) / per_node);
        REQUIRE_NOTHROW(hvd::testing::check_transport(transport, std::size_t{1} << 20));
    }
}

TEST_CASE("a communicator of the user's that is freed meanwhile") {
    MPI_Comm mine = MPI_COMM_NULL;
    MPI_Comm_split(hvd_test::comm(), 0, -hvd_test::rank(), &mine);
    hvd::Mpi transport{mine};
    MPI_Comm_free(&mine);
    REQUIRE(transport.rank() == hvd_test::size() - 1 - hvd_test::rank());
    REQUIRE_NOTHROW(hvd::testing::check_transport(transport, 1000));
}

TEST_CASE("MPI's own error handler stays with the user") {
    MPI_Comm mine = MPI_COMM_NULL;
    MPI_Comm_dup(hvd_test::comm(), &mine);
    MPI_Errhandler before, after;
    MPI_Comm_get_errhandler(mine, &before);
    { const hvd::Mpi transport{mine}; }
    MPI_Comm_get_errhandler(mine, &after);
    REQUIRE(before == after);
    MPI_Comm_free(&mine);
}
