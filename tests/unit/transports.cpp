// The transports satisfy their concept. Checked here, so that including hvd does not pay for it.
#include <doctest/doctest.h>

#include <hvd/transport/local.hpp>
#include <hvd/transport/mpi.hpp>

static_assert(hvd::Transport<hvd::Local> && hvd::detail::SharesMemory<hvd::Local>);
#ifdef HVD_WITH_MPI
static_assert(hvd::Transport<hvd::Mpi> && hvd::detail::SharesMemory<hvd::Mpi>);
#else
static_assert(!hvd::Transport<hvd::Mpi>);
#endif

TEST_CASE("nodes are counted in the order in which ranks name them") {
    const std::vector<int> names{7, 7, 3, 7, 3};
    const hvd::Topology t{4, names};
    CHECK(t.nodes() == 2);
    CHECK(t.node() == 1);
    CHECK(t.local_rank() == 1);
    CHECK(t.local_size() == 2);
    CHECK(t.cross_rank() == 1);
    CHECK(t.cross_size() == 2);
    CHECK(!t.is_homogeneous());
    CHECK(t.smallest_node() == 2);
    CHECK(t.ranks_on_my_node() == std::vector<int>{2, 4});
    CHECK(t.ranks_with_my_place() == std::vector<int>{1, 4});
}
