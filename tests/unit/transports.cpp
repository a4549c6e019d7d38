// The transports satisfy their concept. Checked here, so that including hvd does not pay for it.
#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include <hvd/transport/local.hpp>
#include <hvd/transport/mpi.hpp>

static_assert(hvd::Transport<hvd::Local> && hvd::detail::SharesMemory<hvd::Local>);
#ifdef HVD_WITH_MPI
static_assert(hvd::Transport<hvd::Mpi> && hvd::detail::SharesMemory<hvd::Mpi>);
#else
static_assert(!hvd::Transport<hvd::Mpi>);
#endif

namespace {

// How many names of this process's shared memory there are.
int names_in_shared_memory() {
    const std::string prefix = "hvd-" + std::to_string(::getpid()) + "-";
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator{"/dev/shm"})
        if (entry.path().filename().string().starts_with(prefix)) ++count;
    return count;
}

}  // namespace

TEST_CASE("shared memory has no name, or one that its maker removes") {
    using hvd::detail::SharedFile;
    for (const auto kind : {SharedFile::Kind::Unnamed, SharedFile::Kind::Named}) {
        std::optional<SharedFile> made{std::in_place, kind, std::uint64_t{77}};
        CHECK(names_in_shared_memory() == (kind == SharedFile::Kind::Named ? 1 : 0));
        const std::string name = made->name();
        std::optional<hvd::detail::MappedRegion> first{std::in_place, std::vector<std::size_t>{8, 5000}, 77u, *made};
        std::optional<hvd::detail::MappedRegion> second;
        {
            const SharedFile opened{kind, name};
            second.emplace(std::vector<std::size_t>{8, 5000}, 77u, opened);
        }
        made.reset();
        CHECK(names_in_shared_memory() == 0);
        CHECK_THROWS_AS((SharedFile{kind, name}), hvd::TransportError);
        CHECK(first->part(1)[4999] == std::byte{0});
        first->part(1)[4999] = std::byte{42};
        first.reset();
        CHECK(second->part(1)[4999] == std::byte{42});
    }
}

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
