// Training goes on from a file: on any number of workers, and never from a damaged one.
#include "caught_stderr.hpp"
#include "ledger.hpp"
#include "workers.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <random>
#include <sstream>

#include <hvd/testing/fault_point.hpp>

using hvd::testing::FaultPoint;
using hvd_test::Add;
using hvd_test::Ledger;
namespace fs = std::filesystem;

namespace {

// A folder of its own for each test, gone in the end.
struct Folder {
    fs::path path;
    Folder() {
        char name[] = "/tmp/hvd-checkpoint-XXXXXX";
        REQUIRE(::mkdtemp(name) != nullptr);
        path = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { fs::remove_all(path); }
    std::string operator/(const char* file) const { return (path / file).string(); }
};

std::string read_file(const std::string& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}
void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream{path, std::ios::binary | std::ios::trunc} << bytes;
}

std::vector<std::size_t> numbers(std::size_t count) {
    std::vector<std::size_t> set(count);
    std::iota(set.begin(), set.end(), std::size_t{0});
    return set;
}

constexpr std::size_t samples = 53, epochs = 3;

struct Outcome {
    int code = -1;
    bool is_resumed = false;
    std::vector<double> count;
    double steps = 0;
    std::uint64_t commits = 0;
};

// Stops after `most` steps of this run, as if the machine were switched off.
Outcome train(const std::string& path, int workers, int most, std::uint64_t every, hvd::LaunchOptions options = {}) {
    static const std::vector<std::size_t> set = numbers(samples);
    Outcome outcome;
    std::mutex mutex;
    options.workers = workers;
    outcome.code = hvd::launch<hvd::Local>(options, [&](auto& world) {
        hvd::Checkpoint checkpoint{world, path, {.every = every}};
        Ledger ledger{samples};
        hvd::ShardedDataset data{set, world, {.batch_size = 3, .seed = 5, .last = hvd::Last::Uneven}};
        hvd::DistributedOptimizer optimizer{world, ledger, Add{}, {.op = hvd::Reduction::Sum}};
        hvd::broadcast_parameters(world, ledger);
        int steps = 0;
        for (std::size_t epoch : data.epochs(epochs)) {
            for (auto batch : data.epoch(epoch)) {
                if (steps == most) break;
                ++steps;
                ledger.backward(batch);
                optimizer.step();
            }
            if (steps == most) break;
        }
        const std::vector<double> all = hvd::allgather(world, ledger.count);
        for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == ledger.count[i % samples], "equal on all ranks");
        const std::scoped_lock lock{mutex};
        outcome.is_resumed = checkpoint.is_resumed();
        outcome.count = ledger.count;
        outcome.steps = optimizer.inner().steps.empty() ? 0 : optimizer.inner().steps[0];
        outcome.commits = world.state().commits();
    });
    return outcome;
}

void expect_each_once(const Outcome& outcome) {
    CHECK(outcome.code == 0);
    REQUIRE(outcome.count.size() == samples);
    for (double count : outcome.count) CHECK(count == epochs);
}

// A small file of three objects, and the bytes of the state in it.
void save_number(const std::string& path, int number) {
    REQUIRE(hvd::launch<hvd::Local>(2, [&](auto& world) {
                hvd::Checkpoint checkpoint{world, path, {.resume = false}};
                std::vector<int> tensor(5, number);
                std::string text = "number " + std::to_string(number);
                int mine = number + world.rank();
                world.state().add("tensor", tensor);
                world.state().add("text", text);
                world.state().add("mine", mine, hvd::StateKind::PerRank);
                checkpoint.save();
            }) == 0);
}

// The number that a resumed body finds, 0 without a file, -1 when the job is refused.
int load_number(const std::string& path, std::string* error = nullptr) {
    int found = -1;
    const int code = hvd::launch<hvd::Local>(1, [&](auto& world) {
        try {
            hvd::Checkpoint checkpoint{world, path};
            std::vector<int> tensor(5, 0);
            std::string text = "number 0";
            world.state().add("tensor", tensor);
            world.state().add("text", text);
            expect(text == "number " + std::to_string(tensor[4]) && tensor[0] == tensor[4], "of one state");
            found = tensor[0];
        } catch (const hvd::DataError& e) {
            expect(e.file() == path, "the error names the file");
            expect(std::string{e.what()}.starts_with("hvd: "), "a sentence of hvd's");
            if (error != nullptr) *error = e.what();
        }
    });
    return code == 0 ? found : -2;
}

}  // namespace

TEST_CASE("a training goes on from its file, with 4, then 3, then 5 workers, every sample exactly once") {
    for (const auto& sizes : std::vector<std::vector<int>>{{4, 3, 5}, {1, 2, 1}, {5, 1, 4}, {2, 2, 2}}) {
        const Folder folder;
        const std::string path = folder / "model.hvd";
        const Outcome first = train(path, sizes[0], 5, 1);
        CHECK(first.code == 0);
        CHECK(!first.is_resumed);
        CHECK(first.steps == 5);
        const Outcome second = train(path, sizes[1], 6, 1);
        CHECK(second.code == 0);
        CHECK(second.is_resumed);
        CHECK(second.steps == 11);
        CHECK(second.commits == 11);
        expect_each_once(train(path, sizes[2], -1, 1));
        const Outcome again = train(path, sizes[2], -1, 1);  // nothing is left to do
        expect_each_once(again);
        CHECK(again.is_resumed);
    }
}

TEST_CASE("a file every n steps: what came after it is done again") {
    const Folder folder;
    const std::string path = folder / "model.hvd";
    CHECK(train(path, 2, 9, 4).steps == 9);
    const Outcome second = train(path, 3, 0, 4);
    CHECK(second.steps == 8);
    CHECK(std::accumulate(second.count.begin(), second.count.end(), 0.0) == 8 * 2 * 3);
    CHECK(fs::exists(path + ".previous"));
    CHECK(!fs::exists(path + ".new"));
    expect_each_once(train(path, 3, -1, 4));
}

TEST_CASE("the option of launch: the job begins and ends with the file, also when it falls below its minimum") {
    for (bool elastic : {false, true}) {
        const Folder folder;
        const std::string path = folder / "job.hvd", other = folder / "other.hvd";
        const hvd::LaunchOptions options{.elastic = elastic, .checkpoint = path};
        CHECK(train(other, 4, 5, 0, options).steps == 5);
        CHECK(train(other, 3, 4, 0, options).steps == 9);
        expect_each_once(train(other, 5, -1, 0, options));
        CHECK(!fs::exists(other));
    }
    const Folder folder;
    const std::string path = folder / "job.hvd";
    {
        const FaultPoint fault{"commit: before the slot", 1, 6};
        const hvd::LaunchOptions options{
            .elastic = true, .min_workers = 4, .on_failure = hvd::OnFailure::Shrink, .checkpoint = path};
        CHECK(train(folder / "other.hvd", 4, -1, 0, options).code == 1);
        CHECK(fault.has_fired());
    }
    const Outcome at = train(folder / "other.hvd", 3, 0, 0, {.checkpoint = path});
    CHECK(at.steps == 5);
    expect_each_once(train(folder / "other.hvd", 3, -1, 0, {.checkpoint = path}));
}

TEST_CASE("an exception leaves the last commit in the file of the job") {
    const Folder folder;
    const std::string path = folder / "job.hvd";
    const auto body = [&](int until, auto& world) {
        int turns = 0;
        world.state().add("turns", turns);
        while (turns < 7) {
            if (turns == until && world.rank() == 1) throw std::runtime_error{"the user's own"};
            ++turns;
            world.state().commit();
        }
    };
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .checkpoint = path}, [&](auto& world) { body(4, world); }) == 1);
    CHECK(hvd::launch<hvd::Local>({.workers = 3, .checkpoint = path}, [&](auto& world) {
              expect(world.state().is_restored() && world.state().commits() == 4, "from the fourth");
              body(-1, world);
              expect(world.state().commits() == 7, "three more");
          }) == 0);
}

namespace {

// State of the user's: a generator by way of its text, counters, and what has members.
struct Generator {
    std::mt19937 engine{42};
    template <class Archive>
    void serialize(Archive& a) {
        std::stringstream text;
        text << engine;
        std::string written = text.str();
        a(written);
        std::stringstream{written} >> engine;
    }
};
struct History {
    std::vector<double> losses;
    std::string best = "none";
    template <class Archive>
    void serialize(Archive& a) {
        a(losses, best);
    }
};

}  // namespace

TEST_CASE("random generators, counters and objects go on as if nothing had happened") {
    std::vector<double> whole;
    const auto run = [](const std::string& path, long until, auto&& use) {
        CHECK(hvd::launch<hvd::Local>(3, [&](auto& world) {
                  hvd::Checkpoint checkpoint{world, path, {.every = 1}};
                  Generator random;
                  long turn = 0;
                  History history;
                  world.state().add("random", random);
                  world.state().add("turn", turn);
                  world.state().add("history", history);
                  while (turn < until) {
                      ++turn;
                      history.losses.push_back(std::uniform_real_distribution<>{}(random.engine));
                      history.best = "turn " + std::to_string(turn);
                      world.state().commit();
                  }
                  expect(history.best == "turn " + std::to_string(until), "the text");
                  if (world.rank() == 0) use(history.losses);
              }) == 0);
    };
    const Folder folder;
    run(folder / "whole", 20, [&](const auto& losses) { whole = losses; });
    std::vector<double> parts;
    for (long until : {3, 4, 11, 20}) run(folder / "parts", until, [&](const auto& losses) { parts = losses; });
    CHECK(whole.size() == 20);
    CHECK(parts == whole);
}

TEST_CASE("what is a rank's own comes back to it while the number of workers is the same") {
    for (bool by_launch : {false, true}) {
        const Folder folder;
        const std::string path = folder / "state";
        const auto run = [&](int workers, int expected) {
            const hvd::LaunchOptions options{.workers = workers, .checkpoint = by_launch ? path : ""};
            CHECK(hvd::launch<hvd::Local>(options, [&](auto& world) {
                      hvd::Checkpoint checkpoint{world, by_launch ? folder / "other" : path};
                      std::vector<float> mine(static_cast<std::size_t>(world.rank() + 1), 0.5f);
                      int shared = 0;
                      world.state().add("mine", mine, hvd::StateKind::PerRank);
                      world.state().add("shared", shared);
                      expect(mine[0] == static_cast<float>(expected * (world.rank() + 1)) + 0.5f, "the rank's own");
                      for (float& x : mine) x += static_cast<float>(world.rank() + 1);
                      ++shared;
                      if (by_launch) world.state().commit();
                      else checkpoint.save();
                  }) == 0);
        };
        run(3, 0);
        run(3, 1);
        run(3, 2);
        run(4, 0);
        run(3, 0);
        run(3, 1);
    }
}

TEST_CASE("a damaged file is refused, and the one before is used") {
    const Folder folder;
    const std::string path = folder / "state";
    save_number(path, 1);
    save_number(path, 2);
    CHECK(load_number(path) == 2);
    const std::string good = read_file(path);
    REQUIRE(good.size() > 256);
    const hvd_test::CaughtStderr quiet;
    for (std::size_t at = 0; at < good.size(); ++at) {  // every byte
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
        write_file(path, bad);
        CAPTURE(at);
        CHECK(load_number(path) == 1);
    }
    for (std::size_t length = 0; length < good.size(); length += length < 80 ? 1 : 7) {
        write_file(path, good.substr(0, length));
        CAPTURE(length);
        CHECK(load_number(path) == 1);
    }
    write_file(path, good + "x");
    CHECK(load_number(path) == 1);
    fs::remove(path);  // the machine stopped between the two names
    CHECK(load_number(path) == 1);
    // Nothing whole is left.
    for (const std::string& bad :
         {std::string{}, std::string{"PNG"}, good.substr(0, 63), good.substr(0, 100), std::string(5000, '\0')}) {
        write_file(path, bad);
        write_file(path + ".previous", bad);
        std::string error;
        CHECK(load_number(path, &error) == -1);
        CHECK(error.find("checkpoint") != error.npos);
    }
}

TEST_CASE("a header whose checksum is right and whose numbers are absurd") {
    const Folder folder;
    const std::string path = folder / "state";
    save_number(path, 2);
    const std::string good = read_file(path);
    for (const std::uint64_t absurd :
         {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 40, std::uint64_t{64}}) {
        for (int field = 0; field < 4; ++field) {
            hvd::detail::CheckpointHeader header;
            std::memcpy(&header, good.data(), sizeof header);
            if (field == 0) header.directory_bytes = absurd;
            if (field == 1) header.data_bytes = absurd;
            if (field == 2) header.version = static_cast<std::uint32_t>(absurd >> 8);
            if (field == 3) header.workers = ~0u;
            header.header_sum = header.sum();
            std::string bad = good;
            std::memcpy(bad.data(), &header, sizeof header);
            write_file(path, bad);
            CAPTURE(field);
            CAPTURE(absurd);
            CHECK(load_number(path) == (bad == good ? 2 : -1));
        }
    }
    // A directory with the right sums that promises more than there is.
    const auto forge = [&](const std::vector<hvd::detail::CheckpointEntry>& entries) {
        std::vector<std::byte> directory = hvd::detail::to_bytes(entries);
        directory.resize(hvd::detail::Checksum::rounded(directory.size()));
        hvd::detail::CheckpointHeader header;
        std::memcpy(&header, good.data(), sizeof header);
        hvd::detail::Checksum sum;
        sum.copy(nullptr, directory.data(), directory.size());
        const std::string data = good.substr(64 + header.directory_bytes);
        header.directory_bytes = directory.size();
        header.directory_sum = sum.value();
        header.header_sum = header.sum();
        write_file(path, std::string(reinterpret_cast<const char*>(&header), sizeof header) +
                             std::string(reinterpret_cast<const char*>(directory.data()), directory.size()) + data);
    };
    forge({{"tensor", 0, 0, ~std::uint64_t{0}}});
    CHECK(load_number(path) == -1);
    forge({{"tensor", 0, 0, 20}});  // less than there is
    CHECK(load_number(path) == -1);
    forge({{"tensor", 7, 0, 20}});
    CHECK(load_number(path) == -1);
}

TEST_CASE("a damaged file never takes the place of a good one") {
    const Folder folder;
    const std::string path = folder / "state";
    save_number(path, 1);
    save_number(path, 2);
    write_file(path, "damaged");
    save_number(path, 3);
    CHECK(load_number(path) == 3);
    CHECK(load_number(path + ".previous") == 1);
}

TEST_CASE("the state of another program is refused with the name of the object") {
    const Folder folder;
    const std::string path = folder / "state";
    save_number(path, 1);
    CHECK(hvd::launch<hvd::Local>(2, [&](auto& world) {
              hvd::Checkpoint checkpoint{world, path};
              double tensor[2] = {};
              const std::string text = expect_throws<hvd::UsageError>([&] { world.state().add("tensor", tensor); });
              expect(text.find("'tensor'") != text.npos, text);
              hvd::barrier(world);
          }) == 0);
    CHECK(hvd::launch<hvd::Local>(2, [&](auto& world) {
              int early = 0;
              hvd::Checkpoint other{world, folder / "nothing"};
              world.state().add("early", early);
              expect_throws<hvd::UsageError>([&] { hvd::Checkpoint late{world, path}; });
              hvd::Checkpoint anew{world, path, {.resume = false}};
              anew.save();
          }) == 0);
}

TEST_CASE("a file that cannot be written is an error on all ranks, and training is as it was") {
    const Folder folder;
    CHECK(hvd::launch<hvd::Local>(3, [&](auto& world) {
              expect_throws<hvd::DataError>([&] { hvd::Checkpoint none{world, folder / "no/such/folder/state"}; });
              if (world.rank() == 0) fs::create_directory(folder / "sub");
              hvd::barrier(world);
              hvd::Checkpoint checkpoint{world, folder / "sub/state"};
              if (world.rank() == 0) fs::remove(folder / "sub");
              int number = 7;
              world.state().add("number", number);
              for (int i = 0; i < 2; ++i) expect_throws<hvd::DataError>([&] { checkpoint.save(); });
              expect(number == 7 && world.state().commits() == 2, "committed, but not written");
              expect_works(world);
          }) == 0);
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .checkpoint = folder / "no/such/folder/state"},
                                  [](auto&) { FAIL("no worker trains"); }) == 1);
    // No room: the limit of the size of files stands for a full disk.
    const std::string path = folder / "state";
    save_number(path, 1);
    const std::string before = read_file(path);
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit old{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(hvd::launch<hvd::Local>(3, [&](auto& world) {
              hvd::Checkpoint checkpoint{world, path};
              std::vector<int> tensor(5, 0), large(1'000'000, 3);
              world.state().add("tensor", tensor);
              world.state().add("large", large);
              expect(tensor[0] == 1, "resumed");
              hvd::barrier(world);
              const rlimit small{512 << 10, old.rlim_max};
              if (world.rank() == 0) ::setrlimit(RLIMIT_FSIZE, &small);
              std::size_t offset = 0;
              try {
                  checkpoint.save();
              } catch (const hvd::DataError& e) {
                  offset = e.offset();
              }
              if (world.rank() == 0) ::setrlimit(RLIMIT_FSIZE, &old);
              expect(offset == 512 << 10, "full after 512 KiB, not " + std::to_string(offset));
              expect_works(world);
          }) == 0);
    CHECK(read_file(path) == before);
    CHECK(!fs::exists(path + ".new"));
    CHECK(load_number(path) == 1);
}

TEST_CASE("two jobs that write one file do not write into each other's") {
    const Folder folder;
    const std::string path = folder / "state";
    save_number(path, 1);
    const int other = ::open((path + ".new").c_str(), O_WRONLY | O_CREAT, 0666);
    REQUIRE(other >= 0);
    REQUIRE(::flock(other, LOCK_EX) == 0);
    CHECK(hvd::launch<hvd::Local>(2, [&](auto& world) {
              hvd::Checkpoint checkpoint{world, path};
              expect_throws<hvd::DataError>([&] { checkpoint.save(); });
              hvd::barrier(world);
              if (world.rank() == 0) ::close(other);
              hvd::barrier(world);
              checkpoint.save();
          }) == 0);
}

TEST_CASE("rank 0 dies at every place of writing the file: what is there is whole, and training goes on") {
    for (const char* point : {"checkpoint: before it is on the disk", "checkpoint: before it has its name",
                              "checkpoint: between the names", "checkpoint: written"}) {
        for (int time : {1, 2, 5}) {
            if (std::string{point} == "checkpoint: between the names" && time == 5) time = 4;
            CAPTURE(point);
            CAPTURE(time);
            const Folder folder;
            const std::string path = folder / "model.hvd";
            {
                const FaultPoint fault{point, 0, time};
                expect_each_once(train(path, 3, -1, 2, {.elastic = true}));  // recovers
                CHECK(fault.has_fired());
            }
            const Folder other;
            const std::string stopped = other / "model.hvd";
            {
                const FaultPoint fault{point, 0, time};  // without anybody who would start it again
                CHECK(train(stopped, 3, -1, 2, {.elastic = true, .max_failures = 0}).code == 1);
                CHECK(fault.has_fired());
            }
            const Outcome at = train(stopped, 2, 0, 2);
            CHECK(at.code == 0);
            CHECK(std::abs(at.steps - 2 * time) <= 2);
            expect_each_once(train(stopped, 2, -1, 2));
        }
    }
}
