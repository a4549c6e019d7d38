// Auto, which takes another way for each length: with the agreement, Tree, HalvingDoubling, Ring, and over two levels.
#include "sweep.hpp"
#include "workers.hpp"

TEST_CASE("auto") {
    const hvd::testing::AlgorithmSuiteOptions all{};
    sweep([&](auto& world) { check_algorithm(world, hvd::Auto{}, all); }, all_sizes);
}

TEST_CASE("auto, every path also for short tensors") {
    const hvd::AutoTable table{{{0, "tree"}, {64, "halving_doubling"}, {256, "ring"}, {1024, "hierarchical"}}};
    const hvd::testing::AlgorithmSuiteOptions short_ones{.lengths = {0, 1, 15, 16, 17, 63, 64, 65, 1100},
                                                         .type_lengths = {1, 60}};
    for (int per_node : {0, 1, 2, 3}) {
        CAPTURE(per_node);
        sweep([&](auto& world) { check_algorithm(world, hvd::Auto{.table = table}, short_ones); }, {2, 3, 4, 5, 8, 9},
              per_node);
    }
}

namespace {

// A variable for the time of a test.
class Variable {
public:
    Variable(const char* name, const std::string& value) : name_{name} { ::setenv(name, value.c_str(), 1); }
    ~Variable() { ::unsetenv(name_); }

private:
    const char* name_;
};

std::string table_of(const World& world) { return world.algorithm().report->table.text(); }

}  // namespace

TEST_CASE("all ranks of all communicators go by one measured table") {
    for (int per_node : {0, 2}) {
        CAPTURE(per_node);
        CHECK(hvd::launch<hvd::Local>({.workers = 4, .ranks_per_node = per_node}, [&](auto& world) {
                  const auto measured = hvd::allgather_object(world, table_of(world));
                  for (const std::string& other : measured) expect(other == table_of(world), "the ranks differ");
                  expect(world.duplicate().algorithm().report->table.text() == table_of(world), "measured anew");
                  const auto half = world.split(world.rank() / 2);
                  for (const std::string& other : hvd::allgather_object(half, table_of(half)))
                      expect(other == table_of(half), "the ranks of a half differ");
                  expect(world.algorithm().explain().find("from 0 bytes: ") != std::string::npos, "an explanation");
                  expect_works(half);
                  expect_works(world);
              }) == 0);
    }
}

TEST_CASE("a name or a file in the environment takes the place of a measurement") {
    {
        const Variable name{"HVD_ALGORITHM", "ring"};
        CHECK(hvd::launch<hvd::Local>(3, [](auto& world) {
                  expect(table_of(world) == "0 ring\n", table_of(world));
                  expect_works(world);
              }) == 0);
    }
    const std::string path = "allreduce_auto_table.txt";
    hvd::AutoTable{{{0, "tree"}, {100, "direct"}}}.save(path);
    {
        const Variable file{"HVD_AUTO_TABLE", path};
        CHECK(hvd::launch<hvd::Local>({.workers = 4, .ranks_per_node = 2}, [](auto& world) {
                  expect(table_of(world) == "0 tree\n100 direct\n", table_of(world));
                  expect_works(world);  // between nodes by what there is instead of Direct
              }) == 0);
    }
    std::remove(path.c_str());
}

TEST_CASE("a wrong name or file is the same error on all ranks") {
    for (const auto& variable : {std::pair{"HVD_ALGORITHM", "rings"}, std::pair{"HVD_AUTO_TABLE", "/no/such/file"}}) {
        const char *name = variable.first, *value = variable.second;
        CAPTURE(name);
        const hvd::Auto given{.table = hvd::AutoTable{{{0, "ring"}}}};
        CHECK(hvd::launch<hvd::Local>(3, [&](auto& measured) {
                  const auto world = measured.with(given);
                  hvd::barrier(world);
                  if (world.rank() == 0) ::setenv(name, value, 1);
                  const std::string text =
                      expect_throws<hvd::UsageError>([&] { static_cast<void>(world.with(hvd::Auto{})); });
                  expect(text.find(value) != std::string::npos, text);
                  if (world.rank() == 0) ::unsetenv(name);
                  expect_works(world);
              }) == 0);
    }
}

TEST_CASE("tables that differ between ranks are an error on all") {
    CHECK(hvd::launch<hvd::Local>(3, [](auto& world) {
              hvd::Auto mine;
              if (world.rank() == 2) mine.table = hvd::AutoTable{{{0, "ring"}}};
              const std::string text = expect_throws<hvd::UsageError>([&] { static_cast<void>(world.with(mine)); });
              expect(text.find("different tables") != std::string::npos, text);
              expect_works(world);
          }) == 0);
}
