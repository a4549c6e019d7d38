// Checkpoints of processes: the class, and the option of launch in a job that no supervisor keeps.
#include "ledger.hpp"
#include "mpi_world.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <hvd/hvd.hpp>

using hvd_test::Add;
using hvd_test::Ledger;
namespace fs = std::filesystem;

namespace {

int argc = 1;
char name[] = "program";
char* argv[] = {name, nullptr};

// A folder that all ranks know, gone in the end.
class Folder {
public:
    Folder() {
        char made[64] = "/tmp/hvd-checkpoint-XXXXXX";
        if (hvd_test::rank() == 0) REQUIRE(::mkdtemp(made) != nullptr);
        MPI_Bcast(made, sizeof made, MPI_CHAR, 0, hvd_test::comm());
        path_ = made;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        MPI_Barrier(hvd_test::comm());
        if (hvd_test::rank() == 0) fs::remove_all(path_);
    }
    std::string operator/(const char* file) const { return (path_ / file).string(); }

private:
    fs::path path_;
};

// The steps of the whole training after `most` steps of this run.
template <class World>
double train(const World& world, int most) {
    constexpr std::size_t samples = 41, epochs = 2;
    std::vector<std::size_t> set(samples);
    std::iota(set.begin(), set.end(), std::size_t{0});
    Ledger ledger{samples};
    int mine = 0;
    world.state().add("mine", mine, hvd::StateKind::PerRank);
    hvd::ShardedDataset data{set, world, {.batch_size = 2, .seed = 5, .last = hvd::Last::Uneven}};
    hvd::DistributedOptimizer optimizer{world, ledger, Add{}, {.op = hvd::Reduction::Sum}};
    int steps = 0;
    for (std::size_t epoch : data.epochs(epochs))
        for (auto batch : data.epoch(epoch)) {
            if (steps == most) return optimizer.inner().steps.empty() ? 0 : optimizer.inner().steps[0];
            ++steps;
            mine += 1 + world.rank();
            ledger.backward(batch);
            optimizer.step();
        }
    for (double count : ledger.count) REQUIRE(count == epochs);
    REQUIRE(mine % (1 + world.rank()) == 0);  // its own, or begun anew
    return optimizer.inner().steps[0];
}

}  // namespace

TEST_CASE("a training goes on with another number of processes") {
    const Folder folder;
    const std::string path = folder / "model.hvd";
    REQUIRE(hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) {
                const int p = world.size();
                double done = 0;
                for (int workers : {p, p > 1 ? p - 1 : 1, p, 1}) {
                    std::vector<int> ranks(static_cast<std::size_t>(workers));
                    std::iota(ranks.begin(), ranks.end(), 0);
                    const auto some = world.subset(ranks);
                    if (some.is_member()) {
                        hvd::Checkpoint checkpoint{some, path, {.every = 1}};
                        REQUIRE(checkpoint.is_resumed() == (done > 0));
                        REQUIRE(train(some, 3) == done + 3);
                    }
                    done += 3;
                    hvd::barrier(world);
                }
                hvd::Checkpoint checkpoint{world, path, {.every = 1}};
                REQUIRE(checkpoint.is_resumed());
                REQUIRE(train(world, -1) > done);
            }) == 0);
}

TEST_CASE("the option of launch, without a supervisor") {
    const Folder folder;
    const std::string path = folder / "job.hvd";
    const auto run = [&](int most) {
        double steps = 0;
        REQUIRE(hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) { steps = train(world, most); },
                                      {.checkpoint = path}) == 0);
        return steps;
    };
    REQUIRE(run(4) == 4);
    REQUIRE(run(2) == 6);
    REQUIRE(run(0) == 6);
    const double all = run(-1);
    REQUIRE(all > 6);
    REQUIRE(run(-1) == all);
    MPI_Barrier(hvd_test::comm());
    if (hvd_test::rank() == 0) std::ofstream{path, std::ios::trunc} << "damaged";
    MPI_Barrier(hvd_test::comm());
    REQUIRE(run(0) == 6);  // the one before
}

TEST_CASE("a damaged file, and one that cannot be written, are errors on all ranks") {
    const Folder folder;
    const std::string path = folder / "bad";
    if (hvd_test::rank() == 0) std::ofstream{path} << "no checkpoint at all";
    MPI_Barrier(hvd_test::comm());
    REQUIRE(hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) {
                REQUIRE_THROWS_AS((hvd::Checkpoint{world, path}), hvd::DataError);
                REQUIRE_THROWS_AS((hvd::Checkpoint{world, folder / "no/folder/state"}), hvd::DataError);
                if (world.rank() == 0) fs::create_directory(folder / "gone");
                hvd::barrier(world);
                hvd::Checkpoint nowhere{world, folder / "gone/state"};
                if (world.rank() == 0) fs::remove(folder / "gone");
                hvd::barrier(world);
                int number = 1;
                world.state().add("number", number);
                REQUIRE_THROWS_AS(nowhere.save(), hvd::DataError);
                std::vector<int> ones(10, 1);
                hvd::allreduce(world, ones);
                REQUIRE(ones[9] == world.size());
            }) == 0);
}
