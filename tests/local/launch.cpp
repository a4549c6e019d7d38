// launch, and what becomes of a job when one of its ranks fails, leaves early, or does something else.
#include "workers.hpp"

#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace {

// Hears that rank `who` has failed of `cause`, and counts those who did.
template <class Call>
void expect_peer_failure(int who, const std::string& cause, std::atomic<int>& heard, Call&& call) {
    try {
        call();
    } catch (const hvd::PeerFailure& failure) {
        if (failure.rank() == who && std::string{failure.what()}.find(cause) != std::string::npos) ++heard;
        throw;
    }
}

// The failure is to meet the others in the call that is tested, not in one before it.
void await(std::atomic<int>& arrived, int count) {
    ++arrived;
    while (arrived < count) ::sched_yield();
}

class Environment {  // a variable for the time of a test
public:
    Environment(const char* name, const char* value) : name_{name} { ::setenv(name, value, 1); }
    ~Environment() { ::unsetenv(name_); }

private:
    const char* name_;
};

}  // namespace

TEST_CASE("an exception on one rank ends all at their next call, in whatever they are") {
    const std::vector<std::function<void(const World&)>> calls{
        [](const World& w) { hvd::barrier(w); },
        [](const World& w) {
            std::vector<float> x(5);
            hvd::allreduce(w, x);
        },
        [](const World& w) {
            std::vector<float> x(300000);
            hvd::allreduce(w, x);
        },
        [](const World& w) {
            std::vector<float> x(300000);
            hvd::broadcast(w, x, w.size() - 1);
        },
        [](const World& w) { hvd::allgather_object(w, std::string{"x"}); },
        [](const World& w) { static_cast<void>(w.split(0)); },
        [](const World& w) {
            std::vector<float> x(300000);
            hvd::allreduce_async(w, x).wait();
        },
        [](const World& w) {
            std::vector<float> x(300000);
            hvd::Request request = hvd::allreduce_async(w, x);
            while (!request.ready()) w.transport().worker()->check();
        },
    };
    for (int workers : {2, 3, 5}) {
        for (int who : {0, workers - 1}) {
            for (std::size_t c = 0; c < calls.size(); ++c) {
                CAPTURE(workers);
                CAPTURE(who);
                CAPTURE(c);
                std::atomic<int> heard{0}, arrived{0};
                CHECK(hvd::launch<hvd::Local>(workers, [&](auto& world) {
                          hvd::barrier(world);
                          await(arrived, workers);
                          if (world.rank() == who) throw std::runtime_error{"the first cause"};
                          expect_peer_failure(who, "the first cause", heard, [&] { calls[c](world); });
                      }) == 1);
                CHECK(heard == workers - 1);
            }
        }
    }
}

TEST_CASE("a rank that computes hears of it at its next call") {
    std::atomic<bool> failed{false};
    std::atomic<int> heard{0}, arrived{0};
    CHECK(hvd::launch<hvd::Local>(3, [&](auto& world) {
              await(arrived, 3);
              if (world.rank() == 1) {
                  failed = true;
                  throw 42;  // anything may be thrown
              }
              while (!failed) ::sched_yield();
              volatile double x = 1;
              for (int i = 0; i < 1000000; ++i) x = x * 1.0000001;
              expect_peer_failure(1, "no std::exception", heard, [&] {
                  for (;;) hvd::barrier(world);
              });
          }) == 1);
    CHECK(heard == 2);
}

TEST_CASE("subsets of the failed rank's world end, too, without it in them") {
    std::atomic<int> heard{0}, arrived{0};
    CHECK(hvd::launch<hvd::Local>(4, [&](auto& world) {
              const auto rest = world.split(world.rank() == 3 ? 1 : 0);
              await(arrived, 4);
              if (world.rank() == 3) throw std::runtime_error{"cause"};
              expect_peer_failure(3, "cause", heard, [&] {
                  for (;;) hvd::barrier(rest);
              });
          }) == 1);
    CHECK(heard == 3);
}

TEST_CASE("a rank that leaves early is found out by those that still call") {
    for (int workers : {2, 3, 5}) {
        std::atomic<int> heard{0};
        CHECK(hvd::launch<hvd::Local>(workers, [&](auto& world) {
                  if (world.rank() == 0) return;
                  std::vector<int> x(3);
                  try {
                      hvd::allreduce(world, x);
                  } catch (const hvd::MismatchError& e) {
                      if (std::string{e.what()}.find("rank 0") != std::string::npos) ++heard;
                      throw;
                  }
              }) == 1);
        CHECK(heard == workers - 1);
    }
}

TEST_CASE("a handled error is no failure") {
    CHECK(hvd::launch<hvd::Local>(3, [](auto& world) {
              std::vector<int> x(static_cast<std::size_t>(world.rank()));
              try {
                  hvd::allreduce(world, x);
              } catch (const hvd::MismatchError&) {
              }
          }) == 0);
}

TEST_CASE("workers: by number, options, environment") {
    const auto count = [](auto&&... arguments) {
        std::atomic<int> ranks{0}, size{0};
        const int code = hvd::launch<hvd::Local>(arguments..., [&](auto& world) {
            ++ranks;
            size = world.size();
        });
        CHECK(code == 0);
        CHECK(ranks == size);
        return ranks.load();
    };
    CHECK(count(3) == 3);
    CHECK(count(hvd::LaunchOptions{.workers = 2}) == 2);
    {
        const Environment three{"HVD_WORKERS", "3"};
        CHECK(count(hvd::LaunchOptions{}) == 3);
        CHECK(count(2) == 2);
    }
    for (const char* wrong : {"0", "-1", "many", "3x", "", "4097", "1000000"}) {
        const Environment variable{"HVD_WORKERS", wrong};
        CAPTURE(wrong);
        CHECK(hvd::launch<hvd::Local>(hvd::LaunchOptions{}, [](auto&) { FAIL("no worker starts"); }) == 1);
    }
    using Setting = std::pair<const char*, const char*>;
    for (const Setting& wrong :
         {Setting{"HVD_WORKER", "3"}, Setting{"HVD_ISA", "fast"}, Setting{"HVD_STALL_CHECK_TIME_SECONDS", "soon"},
          Setting{"HVD_STALL_SHUTDOWN_TIME_SECONDS", "-1"}}) {
        const Environment variable{wrong.first, wrong.second};
        CAPTURE(wrong.first);
        CHECK(hvd::launch<hvd::Local>(2, [](auto&) { FAIL("no worker starts"); }) == 1);
    }
    CHECK(count(hvd::LaunchOptions{}) >= 1);
    CHECK_THROWS_AS(count(0), hvd::UsageError);
    CHECK_THROWS_AS(count(-1), hvd::UsageError);
    CHECK_THROWS_AS(count(hvd::LaunchOptions{.workers = 2, .ranks_per_node = -1}), hvd::UsageError);
}

TEST_CASE("launch: forms and options") {
    int argc = 1;
    char name[] = "program";
    char* argv[] = {name, nullptr};
    std::atomic<int> ran{0};
    const auto body = [&](auto& world) {
        ran += world.size();
        expect_works(world);
    };
    CHECK(hvd::launch<hvd::Local>(argc, argv, body, {.workers = 3}) == 0);
    CHECK(hvd::launch<hvd::Local, hvd::Ring>(2, body) == 0);
    CHECK(hvd::launch<hvd::Local>(
              4,
              [&](auto& world) {
                  body(world);
                  expect(world.local_size() == 2 && world.cross_size() == 2 && world.is_homogeneous(), "nodes of two");
              },
              {.ranks_per_node = 2}) == 0);
    CHECK(hvd::launch(argc, argv, body, {.workers = 2}) == 0);
    CHECK(ran == 9 + 4 + 16 + 4);
    CHECK(hvd::launch<hvd::Local>(2, [](auto& world) { expect(!world.options().checks, "checks off"); },
                                  {.checks = false}) == 0);
}

TEST_CASE("a stalled rank is waited for no longer than stall_abort") {
    const Environment abort{"HVD_STALL_SHUTDOWN_TIME_SECONDS", "0.2"};
    std::atomic<int> stalled{0};
    std::atomic<bool> done{false};
    CHECK(hvd::launch<hvd::Local>(2,
                                  [&](auto& world) {
                                      if (world.rank() == 1) {
                                          while (!done) ::sched_yield();  // does something else
                                          return;
                                      }
                                      try {
                                          hvd::barrier(world);
                                      } catch (const hvd::StallError& e) {
                                          if (std::string{e.what()}.find("barrier on rank 0 of 2") != std::string::npos)
                                              ++stalled;
                                      }
                                      done = true;
                                  },
                                  {.checks = false}) == 0);
    CHECK(stalled == 1);
}
