// Workers that are threads die at every place of the protocol of recovery, and training goes on as if they had not.
#include "caught_stderr.hpp"
#include "ledger.hpp"
#include "workers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>

#include <hvd/testing/fault_point.hpp>

using hvd::testing::FaultPoint;
using hvd::testing::FaultRecorder;
using hvd_test::Add;
using hvd_test::Ledger;

namespace {

std::vector<std::size_t> numbers(std::size_t count) {
    std::vector<std::size_t> set(count);
    std::iota(set.begin(), set.end(), std::size_t{0});
    return set;
}

struct Outcome {
    int code = -1;
    int entered = 0;   // workers that entered the body, in all lives
    int finished = 0;  // workers that came to its end
    std::vector<double> count;
    double steps = 0;
    long turns = 0;  // state that the program added
};

// A training of three epochs over `samples` samples; at its end every worker must have the same ledger.
Outcome train(const hvd::LaunchOptions& options, std::size_t samples = 23, hvd::Last last = hvd::Last::Uneven) {
    const std::vector<std::size_t> set = numbers(samples);
    Outcome outcome;
    std::mutex mutex;
    outcome.code = hvd::launch<hvd::Local>(options, [&](auto& world) {
        {
            const std::scoped_lock lock{mutex};
            ++outcome.entered;
        }
        Ledger ledger{samples};
        hvd::ShardedDataset data{set, world, {.batch_size = 3, .seed = 7, .last = last}};
        hvd::DistributedOptimizer optimizer{world, ledger, Add{}, {.op = hvd::Reduction::Sum}};
        hvd::broadcast_parameters(world, ledger);
        long turns = 0;
        world.state().add("turns", turns);
        for (std::size_t epoch = 0; epoch < 3; ++epoch)
            for (auto batch : data.epoch(epoch)) {
                ledger.backward(batch);
                ++turns;
                optimizer.step();
            }
        const std::vector<double> all = hvd::allgather(world, ledger.count);
        for (std::size_t i = 0; i < all.size(); ++i)
            expect(all[i] == ledger.count[i % samples], "the workers have different parameters");
        const std::scoped_lock lock{mutex};
        ++outcome.finished;
        outcome.count = ledger.count;
        outcome.steps = optimizer.inner().steps[0];
        outcome.turns = turns;
    });
    return outcome;
}

void expect_each_once(const Outcome& outcome) {
    CHECK(outcome.code == 0);
    REQUIRE(!outcome.count.empty());
    for (std::size_t i = 0; i < outcome.count.size(); ++i) {
        CAPTURE(i);
        CHECK(outcome.count[i] == 3);
    }
    CHECK(outcome.turns == static_cast<long>(outcome.steps));
}

struct Place {
    std::string point;
    int time;
};

// Every arrival of a worker at a place, in a training without faults, and one of each kind in a training that recovers.
std::vector<Place> places(int rank, const hvd::LaunchOptions& options) {
    const FaultRecorder recorder;
    train(options);
    std::vector<Place> all;
    for (const std::string& point : recorder.arrivals(rank)) {
        int time = 1;
        for (const Place& p : all) time += p.point == point ? 1 : 0;
        all.push_back({point, time});
    }
    return all;
}

}  // namespace

TEST_CASE("without a death nothing changes") {
    for (int workers : {1, 2, 3}) {
        const Outcome plain = train({.workers = workers});
        const Outcome elastic = train({.workers = workers, .elastic = true});
        CHECK(elastic.entered == workers);
        CHECK(elastic.count == plain.count);
        CHECK(elastic.steps == plain.steps);
        expect_each_once(elastic);
    }
}

TEST_CASE("a worker may die at every place, and every time it comes there") {
    for (int workers : {2, 3, 4})
        for (const auto policy : {hvd::OnFailure::Replace, hvd::OnFailure::Shrink}) {
            const hvd::LaunchOptions options{.workers = workers, .elastic = true, .on_failure = policy};
            const Outcome undisturbed = train(options);
            for (int rank = 0; rank < workers; ++rank) {
                const std::vector<Place> all = places(rank, options);
                REQUIRE(all.size() > 40);
                for (const Place& place : all) {
                    CAPTURE(workers);
                    CAPTURE(rank);
                    CAPTURE(place.point);
                    CAPTURE(place.time);
                    const FaultPoint fault{place.point, rank, place.time};
                    const Outcome outcome = train(options);
                    CHECK(fault.has_fired());
                    expect_each_once(outcome);
                    if (policy == hvd::OnFailure::Replace) CHECK(outcome.steps == undisturbed.steps);
                }
            }
        }
}

TEST_CASE("another death at every place while the first is recovered from") {
    for (const auto policy : {hvd::OnFailure::Replace, hvd::OnFailure::Shrink}) {
        const hvd::LaunchOptions options{.workers = 3, .elastic = true, .on_failure = policy};
        for (int rank : {0, 2}) {
            std::vector<Place> second;
            {
                const FaultPoint first{"commit: the slot is whole", 1, 2};
                second = places(rank, options);
            }
            for (const Place& place : second) {
                CAPTURE(rank);
                CAPTURE(place.point);
                CAPTURE(place.time);
                const FaultPoint first{"commit: the slot is whole", 1, 2}, other{place.point, rank, place.time};
                expect_each_once(train(options));
                CHECK(first.has_fired());
                CHECK(other.has_fired());
            }
        }
    }
}

TEST_CASE("two at once, and one after another down to the minimum") {
    {
        const FaultPoint a{"commit: the slot is half written", 0, 3}, b{"commit: the slot is half written", 3, 3};
        expect_each_once(train({.workers = 4, .elastic = true}));
        CHECK(a.has_fired());
        CHECK(b.has_fired());
    }
    const hvd::LaunchOptions shrinking{
        .workers = 4, .elastic = true, .min_workers = 1, .on_failure = hvd::OnFailure::Shrink};
    const FaultPoint a{"commit: before the slot", 3, 2}, b{"commit: before the slot", 2, 4},
        c{"commit: before the slot", 1, 5};
    const Outcome outcome = train(shrinking);
    expect_each_once(outcome);
    CHECK(outcome.finished == 1);
}

TEST_CASE("below the minimum the job ends with a code") {
    const hvd::LaunchOptions options{
        .workers = 3, .elastic = true, .min_workers = 3, .on_failure = hvd::OnFailure::Shrink};
    const FaultPoint fault{"commit: before the slot", 1, 2};
    const Outcome outcome = train(options);
    CHECK(outcome.code == 1);
    CHECK(outcome.finished == 0);
}

TEST_CASE("the same death in the same step ends the job at its third time") {
    std::vector<std::unique_ptr<FaultPoint>> faults;
    for (int life = 0; life < 5; ++life)  // dies at its second commit, in every life at its first
        faults.push_back(std::make_unique<FaultPoint>("commit: before the slot", 1, 2 + life));
    const Outcome outcome = train({.workers = 2, .elastic = true});
    CHECK(outcome.code == 1);
    CHECK(outcome.entered == 6);
}

TEST_CASE("the callback of a recovery comes on every worker, before the body, with what is settled") {
    for (const auto policy : {hvd::OnFailure::Replace, hvd::OnFailure::Shrink}) {
        std::mutex mutex;
        std::vector<hvd::Recovered> told;
        hvd::LaunchOptions options{.workers = 3, .elastic = true, .on_failure = policy};
        options.on_recovery = [&](const hvd::Recovered& r) {
            const std::scoped_lock lock{mutex};
            told.push_back(r);
        };
        const FaultPoint early{"body: before it", 2};  // nothing has been committed
        const FaultPoint fault{"step: before its commit", 1, 4};
        expect_each_once(train(options));
        CHECK(fault.has_fired());
        const int before = policy == hvd::OnFailure::Replace ? 3 : 2, after = policy == hvd::OnFailure::Replace ? 3 : 1;
        REQUIRE(told.size() == static_cast<std::size_t>(after));
        for (const hvd::Recovered& r : told) {
            CHECK(r.workers == after);
            CHECK(r.before == before);
            CHECK(r.commits == 3);
        }
        options.on_recovery = [](const hvd::Recovered&) { throw std::runtime_error{"the callback's own"}; };
        const FaultPoint again{"step: before its commit", 0, 2};
        CHECK(train(options).code == 1);
    }
}

namespace {

// A tensor that hvd cannot resize, one that it cannot make, and an optimizer whose state they are from its first step.
struct Fixed {
    std::vector<double> elements;
};
struct Unmade : Fixed {
    explicit Unmade(std::vector<double> values) : Fixed{std::move(values)} {}
};
template <class X>
struct Momentum {
    std::vector<X> velocity{};
    std::vector<X>& state() { return velocity; }
    void step(Ledger& ledger) {
        if (velocity.empty()) velocity.push_back(X{std::vector<double>(ledger.count.size(), 0.0)});
        for (std::size_t i = 0; i < ledger.count.size(); ++i) {
            velocity[0].elements[i] = 0.5 * velocity[0].elements[i] + ledger.gradient[i] + 1;
            ledger.count[i] += velocity[0].elements[i];
        }
    }
};

}  // namespace

template <>
struct hvd::tensor_traits<Fixed> {
    using value_type = double;
    static double* data(Fixed& t) { return t.elements.data(); }
    static std::size_t size(const Fixed& t) { return t.elements.size(); }
};

template <>
struct hvd::tensor_traits<Unmade> : hvd::tensor_traits<Fixed> {
    static void resize(Unmade& t, std::span<const std::size_t> shape) { t.elements.resize(shape[0]); }
};

TEST_CASE_TEMPLATE("the state of an optimizer that makes it in its first step", X, Fixed, Unmade) {
    const std::vector<std::size_t> set = numbers(20);
    const auto run = [&] {
        std::vector<double> result;
        CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [&](auto& world) {
                  Ledger ledger{set.size()};
                  for (double& g : ledger.gradient) g = 1e9;  // means nothing yet
                  hvd::ShardedDataset data{set, world, {.batch_size = 2, .last = hvd::Last::Uneven}};
                  hvd::DistributedOptimizer optimizer{world, ledger, Momentum<X>{}, {.op = hvd::Reduction::Sum}};
                  for (auto batch : data.epoch(0)) {
                      ledger.backward(batch);
                      optimizer.step();
                  }
                  if (world.rank() == 0) result = ledger.count;
              }) == 0);
        return result;
    };
    const std::vector<double> undisturbed = run();
    REQUIRE(undisturbed.size() == 20);
    for (int time : {1, 2, 4}) {
        const FaultPoint fault{"step: before its commit", 1, time};
        CHECK(run() == undisturbed);
        CHECK(fault.has_fired());
    }
}

namespace {

// Its state is a tensor without elements, of a kind that hvd cannot make.
struct Hollow {
    std::vector<Unmade> made{};
    std::vector<Unmade>& state() { return made; }
    void step(Ledger& ledger) {
        if (made.empty()) made.push_back(Unmade{{}});
        for (std::size_t i = 0; i < ledger.count.size(); ++i) ledger.count[i] += ledger.gradient[i];
    }
};

}  // namespace

TEST_CASE("the state of an optimizer may be tensors without elements") {
    const std::vector<std::size_t> set = numbers(20);
    const FaultPoint fault{"step: before its commit", 1, 3};
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [&](auto& world) {
              Ledger ledger{set.size()};
              hvd::ShardedDataset data{set, world, {.batch_size = 2, .last = hvd::Last::Uneven}};
              hvd::DistributedOptimizer optimizer{world, ledger, Hollow{}, {.op = hvd::Reduction::Sum}};
              for (auto batch : data.epoch(0)) {
                  ledger.backward(batch);
                  optimizer.step();
              }
              expect(ledger.count == std::vector<double>(set.size(), 1), "each sample once");
              expect(optimizer.inner().made.size() == 1, "its state is there");
          }) == 0);
    CHECK(fault.has_fired());
}

TEST_CASE("max_failures") {
    const FaultPoint a{"commit: before the slot", 0, 1}, b{"commit: before the slot", 1, 4};
    CHECK(train({.workers = 2, .elastic = true, .max_failures = 1}).code == 1);
    const FaultPoint c{"commit: before the slot", 0, 1}, d{"commit: before the slot", 1, 4};
    CHECK(train({.workers = 2, .elastic = true, .max_failures = 2}).code == 0);
}

TEST_CASE("an exception ends the job and is not recovered from") {
    std::array<std::atomic<int>, 3> entered{};
    CHECK(hvd::launch<hvd::Local>({.workers = 3, .elastic = true}, [&](auto& world) {
              ++entered[static_cast<std::size_t>(world.rank())];
              hvd::barrier(world);  // a job that ends spares those the body who have not entered it
              if (world.rank() == 1) throw std::runtime_error{"the user's own"};
              for (;;) hvd::barrier(world);
          }) == 1);
    CHECK(entered[1] == 1);
    for (const auto& times : entered) CHECK(times <= 1);  // who starts late may find the job at its end
}

TEST_CASE("a commit every n steps: at most n are done again") {
    const FaultPoint fault{"step: before its commit", 1, 6};
    std::atomic<int> turns{0};
    const std::vector<std::size_t> set = numbers(40);
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true, .commit_every = 4}, [&](auto& world) {
              Ledger ledger{set.size()};
              hvd::ShardedDataset data{set, world, {.batch_size = 2, .last = hvd::Last::Uneven}};
              hvd::DistributedOptimizer optimizer{world, ledger, Add{}, {.op = hvd::Reduction::Sum}};
              for (auto batch : data.epoch(0)) {
                  ledger.backward(batch);
                  if (world.rank() == 0) ++turns;
                  optimizer.step();
              }
              for (double count : ledger.count) expect(count == 1, "each sample once");
          }) == 0);
    // Ten steps, the fifth and the sixth again, and perhaps the seventh, which rank 0 may have begun.
    CHECK((turns == 12 || turns == 13));
}

TEST_CASE("an accumulation window is committed as one") {
    const std::vector<std::size_t> set = numbers(24);
    for (int time : {1, 2, 3}) {
        const FaultPoint fault{"step: before its commit", 0, time};
        CHECK(
            hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [&](auto& world) {
                Ledger ledger{set.size()};
                hvd::ShardedDataset data{set, world, {.batch_size = 1, .last = hvd::Last::Uneven}};
                hvd::DistributedOptimizer optimizer{world, ledger, Add{}, {.accumulate = 5, .op = hvd::Reduction::Sum}};
                for (auto batch : data.epoch(0)) {
                    ledger.backward(batch);
                    optimizer.step();
                }
                optimizer.flush();
                expect(world.state().commits() == 3, "three windows");
                expect(data.state().position == 24 && optimizer.inner().steps[0] == 3, "the last is partial");
            }) == 0);
        CHECK(fault.has_fired());
    }
}

TEST_CASE("several optimizers: the commit comes when each has stepped") {
    const std::vector<std::size_t> set = numbers(12);
    const FaultPoint fault{"commit: before the slot", 1, 2};
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [&](auto& world) {
              Ledger a{set.size()}, b{set.size()};
              hvd::ShardedDataset data{set, world, {.batch_size = 2, .last = hvd::Last::Uneven}};
              hvd::DistributedOptimizer first{world, a, Add{}, {.op = hvd::Reduction::Sum}};
              hvd::DistributedOptimizer second{world, b, Add{}, {.op = hvd::Reduction::Sum}};
              for (auto batch : data.epoch(0)) {
                  a.backward(batch);
                  b.backward(batch);
                  const std::uint64_t before = world.state().commits();
                  first.step();
                  expect(world.state().commits() == before, "not yet");
                  second.step();
                  expect(world.state().commits() == before + 1, "now");
              }
              for (double count : a.count) expect(count == 1, "each sample once");
              expect(a.count == b.count, "both");
          }) == 0);
    CHECK(fault.has_fired());
}

TEST_CASE("an optimizer that keeps another's work from being committed is named, once") {
    const hvd_test::CaughtStderr caught;
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [&](auto& world) {
              Ledger a{3}, b{3};
              hvd::DistributedOptimizer first{world, a, Add{}, {.name = "first"}};
              hvd::DistributedOptimizer second{world, b, Add{}, {.name = "second"}};
              for (int i = 0; i < 250; ++i) first.step();
              expect(world.state().commits() == 0, "the second has not stepped");
              second.step();
              expect(world.state().commits() == 1, "now it has");
              for (int i = 0; i < 99; ++i) first.step();
          }) == 0);
    const std::string text = caught.text();
    CAPTURE(text);
    CHECK(text.starts_with(
        "hvd: 'first' has stepped 100 times since the last commit, which waits for a step of 'second'"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("looking at data is no training: an evaluation begins anew after a restart") {
    const std::vector<std::size_t> set = numbers(12), held_out = numbers(10);
    std::atomic<int> evaluations{0};
    const FaultPoint fault{"commit: before the slot", 1, 5};
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [&](auto& world) {
              Ledger ledger{set.size()};
              hvd::ShardedDataset data{set, world, {.batch_size = 2, .last = hvd::Last::Uneven}};
              hvd::ShardedDataset test{held_out, world, {.batch_size = 2, .last = hvd::Last::Uneven}};
              hvd::DistributedOptimizer optimizer{world, ledger, Add{}, {.op = hvd::Reduction::Sum}};
              for (std::size_t epoch : data.epochs(3)) {
                  for (auto batch : data.epoch(epoch)) {
                      ledger.backward(batch);
                      optimizer.step();
                  }
                  std::size_t seen[1] = {0};
                  for (auto batch : test.epoch(0)) seen[0] += batch.size();
                  hvd::ShardedDataset once{held_out, world, {.last = hvd::Last::Uneven}};
                  for (auto batch : once.epoch(0)) seen[0] += batch.size();
                  hvd::allreduce(world, seen);
                  expect(seen[0] == 20, "all of the held-out samples, twice");
                  if (world.rank() == 0) ++evaluations;
              }
              for (double count : ledger.count) expect(count == 3, "each sample once per epoch");
          }) == 0);
    CHECK(fault.has_fired());
    CHECK(evaluations == 3);
}

TEST_CASE("per-rank state stays with its rank, and with the survivors") {
    for (const auto policy : {hvd::OnFailure::Replace, hvd::OnFailure::Shrink}) {
        const FaultPoint fault{"commit: before the slot", 1, 3};
        CHECK(hvd::launch<hvd::Local>({.workers = 3, .elastic = true, .on_failure = policy}, [&](auto& world) {
                  int mine = 100 * world.rank();
                  std::string shared = "x";
                  world.state().add("mine", mine, hvd::StateKind::PerRank);
                  world.state().add("shared", shared);
                  while (shared.size() < 5) {
                      ++mine;
                      shared += "x";
                      world.state().commit();
                  }
                  const int origin = world.size() == 2 && world.rank() == 1 ? 2 : world.rank();
                  expect(mine == 100 * origin + 4, "what it was on rank " + std::to_string(origin));
                  expect(world.state().commits() == 4, "four commits");
              }) == 0);
        CHECK(fault.has_fired());
    }
}

TEST_CASE("state: misuse") {
    on_workers({1, 2}, [](const World& world) {
        expect(!world.state().is_active(), "nobody keeps state");
        int x = 0;
        world.state().add("x", x);
        world.state().add("x", x);  // nothing is looked at
        world.state().commit();
    });
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [](auto& world) {
              int x = 0;
              std::vector<float> long_one(static_cast<std::size_t>(3 + world.rank()));
              world.state().add("x", x);
              expect_throws<hvd::UsageError>([&] { world.state().add("x", x); });
              world.state().commit();
              world.state().add("differs", long_one);
              expect_throws<hvd::MismatchError>([&] { world.state().commit(); });
              world.state().remove("differs");
              world.state().commit();
              const std::vector<std::size_t> set = numbers(10);
              Ledger ledger{10};
              { hvd::DistributedOptimizer optimizer{world, ledger, Add{}}; }  // never stepped: leaves nothing
              {
                  hvd::DistributedOptimizer optimizer{world, ledger, Add{}};
                  optimizer.step();
              }
              expect_throws<hvd::UsageError>([&] { hvd::DistributedOptimizer second{world, ledger, Add{}}; });
              hvd::DistributedOptimizer named{world, ledger, Add{}, {.name = "second"}};
              named.step();
          }) == 0);
    const auto body = [](auto&) { FAIL("no worker starts"); };
    CHECK_THROWS_AS(hvd::launch<hvd::Local>({.workers = 2, .elastic = true, .min_workers = 3}, body), hvd::UsageError);
    CHECK_THROWS_AS(hvd::launch<hvd::Local>({.workers = 2, .elastic = true, .min_workers = 0}, body), hvd::UsageError);
    CHECK_THROWS_AS(hvd::launch<hvd::Local>({.workers = 2, .elastic = true, .max_workers = 1}, body), hvd::UsageError);
    using Seconds = std::chrono::duration<double>;
    CHECK_THROWS_AS(hvd::launch<hvd::Local>({.workers = 2, .elastic = true, .deadline = Seconds{-1}}, body),
                    hvd::UsageError);
    CHECK_THROWS_AS(hvd::launch<hvd::Local>({.workers = 2, .elastic = true, .rejoin_timeout = Seconds{-1}}, body),
                    hvd::UsageError);
    CHECK_THROWS_AS(hvd::launch<hvd::Local>({.workers = 2, .elastic = true, .commit_every = 0}, body), hvd::UsageError);
}

TEST_CASE("phases one after another are passed by once they are done") {
    const std::vector<std::size_t> set = numbers(12);
    std::atomic<int> first_steps{0};
    const FaultPoint fault{"commit: before the slot", 1, 6};  // in the second phase
    CHECK(hvd::launch<hvd::Local>({.workers = 2, .elastic = true}, [&](auto& world) {
              Ledger a{set.size()}, b{set.size()};
              const auto phase = [&](Ledger& ledger, const std::string& name) {
                  hvd::ShardedDataset data{
                      set, world, {.batch_size = 2, .last = hvd::Last::Uneven, .name = name + " data"}};
                  hvd::DistributedOptimizer optimizer{world, ledger, Add{}, {.op = hvd::Reduction::Sum, .name = name}};
                  for (auto batch : data.epoch(0)) {
                      ledger.backward(batch);
                      optimizer.step();
                      if (name == "first" && world.rank() == 0) ++first_steps;
                  }
              };
              phase(a, "first");
              phase(b, "second");
              for (double count : a.count) expect(count == 1, "each sample once in the first phase");
              for (double count : b.count) expect(count == 1, "each sample once in the second phase");
          }) == 0);
    CHECK(fault.has_fired());
    CHECK(first_steps == 3);
}
