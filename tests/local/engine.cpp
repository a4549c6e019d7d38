// The engine on threads, with a thread of its own and driven by its callers.
#include "workers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <latch>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

namespace {

// Runs `body(world, options)` in every way an engine can be driven.
void on_engines(const std::vector<int>& sizes, const std::function<void(const World&, hvd::EngineOptions)>& body) {
    for (bool background : {true, false}) {
        CAPTURE(background);
        on_workers(sizes, [&](const World& world) {
            hvd::EngineOptions options;
            options.background = background;
            options.stall_warning = std::chrono::seconds{30};
            body(world, options);
        });
    }
}

template <class E, class F>
std::string text_of(F&& f) {
    try {
        f();
    } catch (const E& e) {
        return e.what();
    }
    return {};
}

// An algorithm whose last rank never does its part.
struct Unfinished {
    static constexpr std::string_view name = "unfinished";

    struct State {};
    template <class T>
    State prepare(T&) const {
        return {};
    }

    struct Run final : hvd::detail::Operation {
        int last;
        explicit Run(int peer) : last{peer} {}
        bool advance() override { return false; }
        int waiting_for() const override { return last; }
    };
    template <class T, class E, class Op>
    std::unique_ptr<hvd::detail::Operation> start(hvd::Channel<T> channel, State&, std::span<E>, const Op&) const {
        return std::make_unique<Run>(channel.size() - 1);
    }
    template <class T, class E, class Op>
    void run(hvd::Channel<T> channel, State& state, std::span<E> data, const Op& op) const {
        hvd::detail::run_started(*this, channel, state, data, op);
    }
};

}  // namespace

TEST_CASE("tensors in opposite orders, of random lengths and types, by one plan") {
    on_engines({1, 2, 3}, [](const World& world, hvd::EngineOptions options) {
        options.fusion_threshold = 4096;
        options.first_bucket = 256;
        hvd::Engine engine{world, options};
        constexpr std::size_t count = 200;
        std::mt19937 common{5}, own{static_cast<unsigned>(world.rank())};
        std::vector<std::size_t> order(count), lengths(count);
        for (std::size_t& n : lengths) n = common() % 300;
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::vector<std::vector<float>> floats(count);
        std::vector<std::vector<std::int64_t>> integers(count);
        const int p = world.size();
        for (int step = 0; step < 20; ++step) {
            std::shuffle(order.begin(), order.end(), own);
            std::vector<hvd::Request> requests;
            for (std::size_t i : order) {
                const auto name = "t" + std::to_string(i);
                if (i % 3 == 0) {
                    integers[i].assign(lengths[i], world.rank() + static_cast<int>(i));
                    requests.push_back(engine.allreduce(name, integers[i], hvd::max));
                } else {
                    floats[i].assign(lengths[i], static_cast<float>(world.rank() + step));
                    requests.push_back(engine.allreduce(name, floats[i], hvd::sum));
                }
            }
            engine.synchronize();
            for (std::size_t i = 0; i < count; ++i) {
                if (lengths[i] == 0) continue;
                if (i % 3 == 0) expect(integers[i].back() == p - 1 + static_cast<int>(i), "max");
                else expect(floats[i][0] == static_cast<float>(p * (p - 1) / 2 + p * step), "sum");
            }
        }
        const hvd::PlanInfo plan = engine.plan();
        expect(plan.made == 1, "one plan serves all steps");
        expect(plan.reused == 19, "and is reused: " + std::to_string(plan.reused));
        expect(plan.control_messages == 0, "without a control message");
        expect(plan.buckets.size() > 10, "in many buckets");
    });
}

TEST_CASE("every order and every omission of three tensors on two ranks, and on three") {
    // The subsets of {0, 1, 2} in every order: 16 programs per rank.
    std::vector<std::vector<int>> programs{{}};
    for (std::size_t i = 0; i < programs.size(); ++i)
        for (int t = 0; t < 3; ++t)
            if (std::find(programs[i].begin(), programs[i].end(), t) == programs[i].end()) {
                programs.push_back(programs[i]);
                programs.back().push_back(t);
            }
    REQUIRE(programs.size() == 16);
    for (int p : {2, 3}) {
        CAPTURE(p);
        // On three ranks every third combination, which still has every program on every rank.
        const std::size_t combinations = p == 2 ? 256 : 4096, stride = p == 2 ? 1 : 3;
        CHECK(hvd::launch<hvd::Local>(p, [&](auto& world) {
                  hvd::Engine engine{world, {.background = false}};
                  const char* names[] = {"a", "b", "c"};
                  for (std::size_t k = 0; k < combinations; k += stride) {
                      std::size_t mine = k;
                      for (int r = 0; r < world.rank(); ++r) mine /= 16;
                      std::vector<long> values[3];
                      hvd::Request requests[3];
                      const auto submit = [&](int t) {
                          values[t].assign(static_cast<std::size_t>(t + 1), world.rank() + 10 * t);
                          requests[t] = engine.allreduce(names[t], values[t], hvd::sum);
                      };
                      for (int t : programs[mine % 16]) submit(t);
                      // What this rank left out it submits now; what it has is still pending, or complete, and not given again.
                      for (int t = 0; t < 3; ++t)
                          if (values[t].empty()) submit(t);
                      for (int t = 0; t < 3; ++t) requests[t].wait();
                      for (int t = 0; t < 3; ++t)
                          expect(values[t][0] == p * (p - 1) / 2 + 10 * t * p,
                                 "each tensor is reduced once, over all ranks");
                  }
              }) == 0);
    }
}

TEST_CASE("a tensor that one rank leaves out in a step pairs with its next submission") {
    on_engines({2, 3}, [](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        std::vector<std::vector<int>> t(4);
        const auto fill = [&](int value) {
            for (auto& v : t) v.assign(5, value);
        };
        const int p = world.size();
        for (int step = 0; step < 6; ++step) {
            fill(1);
            hvd::Request requests[4];
            const bool leaves_out = step == 2 && world.rank() == 1;
            for (std::size_t i = 0; i < 4; ++i)
                if (!(leaves_out && i == 2)) requests[i] = engine.allreduce("t" + std::to_string(i), t[i]);
            for (std::size_t i = 0; i < 4; ++i) {
                if (step == 2 && i == 2) continue;  // pending on the others
                requests[i].wait();
                expect(t[i][4] == p, "the rest of the bucket completes");
            }
            if (step == 2 && leaves_out) requests[2] = engine.allreduce("t2", t[2]);
            if (step == 2) {
                requests[2].wait();
                expect(t[2][0] == p, "it pairs by its name");
            }
        }
        engine.synchronize();
        expect(engine.plan().reused >= 2, "the plan serves again");
    });
}

TEST_CASE("a tensor that changes on all ranks goes on; on one it is an error on all, and the engine works") {
    on_engines({2, 3}, [](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        for (std::size_t n : {4u, 4u, 9u, 9u, 4u}) {
            std::vector<double> v(n, 1.0);
            engine.allreduce("v", v).wait();
            expect(v[n - 1] == world.size(), "another length on all ranks");
        }
        std::vector<double> uneven(world.rank() == 1 ? 5 : 4, 1.0);
        const std::string text = text_of<hvd::MismatchError>([&] { engine.allreduce("v", uneven).wait(); });
        expect(text.find("'v'") != std::string::npos && text.find("rank 1") != std::string::npos,
               "names tensor and rank: " + text);
        for (const auto& other : hvd::allgather_object(world, text)) expect(other == text, "the same text everywhere");
        std::vector<float> as_float(4, 1.0f);
        std::vector<int> as_int(4, 1);
        const std::string types = text_of<hvd::MismatchError>([&] {
            if (world.rank() == 0) engine.allreduce("t", as_float).wait();
            else engine.allreduce("t", as_int).wait();
        });
        expect(types.find("float") != std::string::npos && types.find("int32") != std::string::npos, types);
        const std::string ops = text_of<hvd::MismatchError>([&] {
            if (world.rank() == 0) engine.allreduce("o", as_int, hvd::max).wait();
            else engine.allreduce("o", as_int, hvd::min).wait();
        });
        expect(ops.find("max") != std::string::npos && ops.find("min") != std::string::npos, ops);
        engine.allreduce("v", as_int).wait();
        expect(as_int[0] == world.size(), "the engine goes on");
    });
}

TEST_CASE("what the checks of an operation find ends that operation on all ranks, and not the engine") {
    on_engines({1, 2, 3}, [](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        const auto p = static_cast<std::size_t>(world.size());
        std::vector<int> rows(2 * p, 1), all, value(2, world.rank());
        std::array<int, 1> too_short{};
        const std::vector<std::size_t> counts(p, 3);
        std::vector<std::size_t> received;
        const auto works = [&](const std::string& name) {
            std::vector<int> x(3, 1);
            engine.allreduce(name, x).wait();
            expect(x[2] == world.size(), "afterwards the engine does not work");
        };
        const auto fails = [&](auto&& call) { expect(!text_of<hvd::UsageError>(call).empty(), "no error"); };
        fails([&] { engine.allgather("gather", rows, too_short).wait(); });
        works("a");
        fails([&] { engine.alltoall("exchange", rows, counts, all, received).wait(); });
        works("b");
        fails([&] { engine.broadcast("from nobody", value, 99).wait(); });
        works("c");
        // One rank is wrong, and no other waits for ever.
        fails([&] {
            if (world.rank() == 0) engine.allgather("one gather", rows, too_short).wait();
            else engine.allgather("one gather", rows, all).wait();
        });
        works("d");
        fails([&] { engine.broadcast("one broadcast", value, world.rank() == 0 ? 99 : 0).wait(); });
        works("e");
    });
}

TEST_CASE("ranks that wait for different names say so once, and who lacks what") {
    on_workers({2, 3}, [](const World& world) {
        hvd::EngineOptions options;
        options.background = false;
        options.stall_warning = std::chrono::milliseconds{1};
        options.stall_abort = std::chrono::milliseconds{150};
        hvd::Engine engine{world, options};
        std::vector<int> x(1, 1);
        const std::string text =
            text_of<hvd::StallError>([&] { engine.allreduce(world.rank() == 0 ? "here" : "there", x).wait(); });
        expect(text.find("rank") != std::string::npos, "names ranks: " + text);
    });
}

TEST_CASE("a failure is heard before the end of a rank that it has ended") {
    on_workers({3}, [](const World& world) {
        using hvd::detail::EngineNotice;
        hvd::detail::NoticeBoard<hvd::Local> board{world.shared_context()};
        EngineNotice notice;
        const auto next = [&] {
            while (!board.receive(notice)) std::this_thread::yield();
            return notice.kind;
        };
        if (world.rank() == 1) board.send({EngineNotice::Failure, 1, 0});
        if (world.rank() == 0) {
            expect(next() == EngineNotice::Failure, "the failure comes first to rank 0");
            if (board.passes_on()) board.send(notice);
            board.send({EngineNotice::Closed, 0, 0});
        }
        hvd::barrier(world);
        if (world.rank() == 2) expect(next() == EngineNotice::Failure, "the failure comes first to rank 2");
        hvd::barrier(world);
        if (world.rank() != 0) board.send({EngineNotice::Closed, static_cast<std::uint64_t>(world.rank()), 0});
        board.close();
    });
}

TEST_CASE("what a late rank has submitted last is known, also when it was complete in the first step") {
    on_workers({2, 3}, [](const World& world) {
        const auto other = world.duplicate();
        hvd::EngineOptions options;
        options.background = false;
        options.stall_abort = std::chrono::milliseconds{150};
        hvd::Engine engine{world, options};
        std::vector<int> x(1, 1), y(1, 1);
        const bool is_late = world.rank() == world.size() - 1;
        hvd::Request first = engine.allreduce("first", x), second;
        if (!is_late) second = engine.allreduce("second", y);
        first.wait();
        if (is_late) hvd::barrier(other);
        const std::string text =
            text_of<hvd::StallError>([&] { (is_late ? engine.allreduce("second", y) : std::move(second)).wait(); });
        expect(!text.empty() && text.find("unknown here") == std::string::npos, text);
        if (!is_late) hvd::barrier(other);
    });
}

TEST_CASE("a wait that is given up ends all that the engine does") {
    CHECK(hvd::launch<hvd::Local>(2, [](auto& world) {
              const auto other = world.duplicate();
              {
                  hvd::EngineOptions options;
                  options.background = false;
                  hvd::Engine engine{world, options};
                  std::vector<std::vector<int>> tensors(8, std::vector<int>(5, 1));
                  std::vector<hvd::Request> requests;
                  if (world.rank() == 0) {
                      // Nobody else comes to the round, and the wait itself loses patience: once, and not for each tensor.
                      world.transport().worker()->stall_abort = std::chrono::milliseconds{100};
                      for (std::size_t i = 0; i < tensors.size(); ++i)
                          requests.push_back(engine.allreduce("t" + std::to_string(i), tensors[i]));
                      int stalls = 0;
                      std::string first;
                      for (auto& request : requests) {
                          const std::string text = text_of<hvd::StallError>([&] { request.wait(); });
                          if (first.empty()) first = text;
                          stalls += text == first ? 1 : 0;
                      }
                      expect(stalls == 8, "all have the same end");
                      world.transport().worker()->stall_abort = {};
                  }
                  hvd::barrier(other);
              }
              hvd::barrier(other);
          }) == 0);
}

TEST_CASE("a name that is pending is refused at once, and the first completes") {
    on_engines({1, 2}, [](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        std::vector<int> a(3, 1), b(3, 1);
        hvd::Request first = engine.allreduce("same", a);
        const std::string text = text_of<hvd::UsageError>([&] { engine.allreduce("same", b).wait(); });
        expect(text.find("'same'") != std::string::npos, text);
        first.wait();
        expect(a[0] == world.size(), "the first completes");
        engine.allreduce("same", b).wait();
    });
}

TEST_CASE("join: every rank first in turn, all reductions, more than one epoch") {
    on_engines({1, 2, 3, 4}, [](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        const int p = world.size();
        for (int first = 0; first < p; ++first) {
            const int batches = (world.rank() - first + p) % p;  // rank `first` joins at once, the one before it last
            for (int b = 0; b < batches; ++b) {
                const int taking_part = p - 1 - b;
                std::vector<double> mean(3, 6.0);
                std::vector<int> least(2, world.rank()), most(2, world.rank()), product(1, 2), own(1, 1);
                hvd::Request requests[] = {
                    engine.allreduce("mean", mean, hvd::average), engine.allreduce("min", least, hvd::min),
                    engine.allreduce("max", most, hvd::max), engine.allreduce("product", product, hvd::product),
                    engine.allreduce("own", own, [](int x, int y) { return x + y; })};
                for (auto& r : requests) r.wait();
                int low = p, high = -1, product_of = 1;
                for (int r = 0; r < p; ++r) {
                    if ((r - first + p) % p <= b) continue;
                    low = std::min(low, r);
                    high = std::max(high, r);
                    product_of *= 2;
                }
                expect(mean[2] == 6.0, "the mean divides by the ranks that took part");
                expect(least[0] == low && most[1] == high, "min and max of those");
                expect(product[0] == product_of && own[0] == taking_part, "product and an own operation, too");
            }
            const int last = engine.join();
            expect(last == (first + p - 1) % p, "the last to join is known to all: " + std::to_string(last));
            std::vector<int> after(2, 1);
            engine.allreduce("after", after).wait();
            expect(after[0] == p, "an epoch after a join");
        }
        const int all_at_once = engine.join();
        for (int other : hvd::allgather(world, std::vector<int>{all_at_once}))
            expect(other == all_at_once, "all at once");
    });
}

TEST_CASE("other collectives by name, also while a rank has joined") {
    on_engines({2, 3}, [](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        const int p = world.size(), rank = world.rank();
        const auto up = static_cast<std::size_t>(p);
        for (int step = 0; step < 3; ++step) {
            std::vector<int> rows(static_cast<std::size_t>(rank), rank), all, root(3, rank), to_all(up, rank), received,
                part;
            std::vector<int> wide(2 * up, 1);
            std::vector<std::size_t> counts(up, 1), got;
            std::vector<hvd::Request> requests;
            requests.push_back(engine.allgather("gather", rows, all));
            requests.push_back(engine.broadcast("broadcast", root, p - 1));
            requests.push_back(engine.alltoall("alltoall", to_all, counts, received, got));
            requests.push_back(engine.reduce_scatter("scatter", wide, part));
            for (auto& r : requests) r.wait();
            expect(all.size() == up * (up - 1) / 2 && root[2] == p - 1, "allgather and broadcast");
            expect(received[up - 1] == p - 1 && got == counts && part == std::vector<int>{p, p},
                   "alltoall and reduce_scatter");
        }
        std::vector<int> a(3, 1);
        std::vector<double> b(2, 1.0);
        engine.allreduce("group", std::tie(a, b)).wait();
        engine.allreduce("empty group", std::tuple<>{}).wait();
        expect(a[0] == p && b[1] == p, "a group is one operation");
        if (rank > 0) {
            std::vector<int> rows(1, rank), all;
            engine.allgather("late gather", rows, all).wait();
            expect(all.size() == up - 1 && all[0] == 1, "allgather without the joined rank");
            std::vector<int> value(2, rank);
            engine.broadcast("late broadcast", value, p - 1).wait();
            expect(value[0] == p - 1, "broadcast past it");
            const std::string text =
                text_of<hvd::MismatchError>([&] { engine.broadcast("from the joined", value, 0).wait(); });
            expect(text.find("root has joined") != std::string::npos, text);
        }
        engine.join();
    });
}

TEST_CASE("stall_abort reaches all ranks, the late one when it comes, and a new engine works") {
    on_engines({2, 3}, [](const World& world, hvd::EngineOptions options) {
        options.stall_warning = std::chrono::milliseconds{50};
        options.stall_abort = std::chrono::milliseconds{200};
        std::vector<float> x(4, 1.0f), y(4, 1.0f);
        {
            hvd::Engine engine{world, options};
            engine.allreduce("x", x).wait();
            if (world.rank() == 1) hvd::barrier(world);  // held back until the others have given up
            const std::string text = text_of<hvd::StallError>([&] { engine.allreduce("held back", y).wait(); });
            expect(text.find("held back") != std::string::npos, "names the tensor: " + text);
            expect(text.find("rank 1") != std::string::npos || world.context().board == nullptr,
                   "names the rank: " + text);
            expect(text.find("rank 1 has submitted 'x' last") != std::string::npos || world.context().board == nullptr,
                   "and what it did last: " + text);
            if (world.rank() != 1) hvd::barrier(world);
        }
        hvd::Engine engine{world, {}};
        engine.allreduce("y", x).wait();
    });
}

TEST_CASE("stall_abort also ends what all have submitted and one does not carry on with") {
    on_engines({2, 3}, [](const World& world, hvd::EngineOptions options) {
        options.stall_abort = std::chrono::milliseconds{200};
        const auto unfinished = world.with(Unfinished{});
        std::vector<float> x(4, 1.0f);
        {
            hvd::Engine engine{unfinished, options};
            const std::string text = text_of<hvd::StallError>([&] { engine.allreduce("x", x).wait(); });
            expect(text.find("in the middle of 'x'") != std::string::npos, "names the tensor: " + text);
            expect(text.find("rank " + std::to_string(world.size() - 1)) != std::string::npos, "and the rank: " + text);
        }
        hvd::Engine engine{world, {}};
        engine.allreduce("y", x).wait();
    });
}

TEST_CASE("an engine that is destroyed completes or fails what is under way, and tells the others") {
    on_engines({2, 3}, [](const World& world, hvd::EngineOptions options) {
        std::vector<int> x(3, 1), y(3, 1);
        hvd::Request left;
        {
            hvd::Engine engine{world, options};
            engine.allreduce("x", x).wait();
            if (world.rank() == 0) left = engine.allreduce("only here", y);
        }
        if (world.rank() == 0)
            expect(!text_of<hvd::Error>([&] { left.wait(); }).empty(), "it fails, and the request outlives the engine");
        left = {};
        hvd::barrier(world);
        {
            std::optional<hvd::Engine<World>> engine{std::in_place, world, options};
            engine->allreduce("x", x).wait();
            if (world.rank() == 1) {
                engine.reset();
            } else {
                bool is_stall = false;
                const std::string text = text_of<hvd::TransportError>([&] {
                    try {
                        engine->allreduce("x", y).wait();
                    } catch (const hvd::StallError&) {
                        is_stall = true;
                        throw;
                    }
                });
                expect(text.find("rank 1") != std::string::npos,
                       "those who wait for it learn that it is gone: " + text);
                expect(!is_stall, "nobody waited too long");
            }
        }
    });
}

TEST_CASE("what all have submitted is completed by the end of their engines, also before there is a plan") {
    on_engines({1, 2, 3}, [](const World& world, hvd::EngineOptions options) {
        std::vector<int> x(3, 1), y(2, world.rank()), z(1, 1);
        hvd::Request first, second, third;
        {
            hvd::Engine engine{world, options};
            if (world.rank() == 1) second = engine.allreduce("y", y);
            first = engine.allreduce("x", x);
            if (world.rank() != 1) second = engine.allreduce("y", y);
            if (world.rank() == 1) third = engine.allreduce("only here", z);
        }
        first.wait();
        second.wait();
        expect(x == std::vector<int>(3, world.size()), "x is the sum");
        expect(y[1] == world.size() * (world.size() - 1) / 2, "y is the sum");
        if (world.rank() == 1)
            expect(!text_of<hvd::Error>([&] { third.wait(); }).empty(), "what nobody else has submitted fails");
    });
}

TEST_CASE("an engine that ends in the middle of a round is missed by the others") {
    for (int size : {2, 3}) {
        std::latch is_gone{1};  // a wait of hvd's would let the engine go on
        CHECK(hvd::launch<hvd::Local>(size, [&](auto& world) {
                  hvd::EngineOptions options;
                  options.background = false;
                  std::optional<hvd::Engine<World>> engine{std::in_place, world, options};
                  std::vector<int> x(3, 1);
                  engine->allreduce("x", x).wait();
                  hvd::barrier(world);
                  hvd::Request next = engine->allreduce("x", x);
                  if (world.rank() == 0) {
                      world.transport().worker()->stall_abort = std::chrono::milliseconds{100};
                      const std::string text = text_of<hvd::StallError>([&] { next.wait(); });
                      world.transport().worker()->stall_abort = {};
                      engine.reset();
                      is_gone.count_down();
                      expect(!text.empty(), "the round has begun, and the others do not come");
                  } else {
                      is_gone.wait();
                      expect(!text_of<hvd::TransportError>([&] { next.wait(); }).empty(), "rank 0 does not go on");
                  }
              }) == 0);
    }
}

TEST_CASE("empty tensors, threshold 0, and one tensor above the threshold") {
    on_engines({1, 2, 3}, [](const World& world, hvd::EngineOptions options) {
        for (std::size_t threshold : {0u, 64u, 1u << 20}) {
            options.fusion_threshold = threshold;
            hvd::Engine engine{world, options};
            for (int step = 0; step < 3; ++step) {
                std::vector<float> none, one(1, 1.0f), long_one(300000, 1.0f);
                hvd::Request a = engine.allreduce("none", none), b = engine.allreduce("one", one),
                             c = engine.allreduce("long", long_one);
                c.wait();
                b.wait();
                a.wait();
                expect(one[0] == static_cast<float>(world.size()) && long_one[299999] == one[0], "sums");
            }
        }
    });
}

TEST_CASE("several engines and process sets at once, waited for in different orders") {
    on_engines({2, 4}, [](const World& world, hvd::EngineOptions options) {
        auto half = world.split(world.rank() % 2, 0);
        hvd::Engine all{world, options}, again{world, options}, set{half, options};
        for (int step = 0; step < 20; ++step) {
            std::vector<int> x(10, 1), y(10, 2), z(10, 3);
            hvd::Request a = all.allreduce("x", x), b = again.allreduce("x", y), c = set.allreduce("x", z);
            hvd::Request* order[] = {&a, &b, &c};
            std::rotate(order, order + world.rank() % 3, order + 3);
            for (hvd::Request* r : order) r->wait();
            std::vector<int> between(1, 1);
            hvd::allreduce(world, between);
            expect(x[0] == world.size() && y[0] == 2 * world.size() && z[0] == 3 * half.size() &&
                       between[0] == world.size(),
                   "sums");
        }
    });
}

TEST_CASE("two threads of a worker submit to one engine") {
    on_engines({2}, [](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        std::atomic<int> wrong{0};
        const auto work = [&](const std::string& prefix) {
            for (int step = 0; step < 50; ++step) {
                std::vector<int> x(100, 1);
                engine.allreduce(prefix + std::to_string(step % 5), x).wait();
                if (x[99] != world.size()) ++wrong;
            }
        };
        std::thread other{work, "other "};
        work("this ");
        other.join();
        expect(wrong == 0, "sums");
    });
}

TEST_CASE("the timeline is JSON at any moment") {
    const std::string path = "timeline-" + std::to_string(::getpid()) + ".json";
    on_engines({2}, [&](const World& world, hvd::EngineOptions options) {
        hvd::Engine engine{world, options};
        const auto read = [&] {
            std::ifstream file{path};
            std::stringstream text;
            text << file.rdbuf();
            return text.str();
        };
        for (int round = 0; round < 4; ++round) {
            engine.start_timeline(path);
            hvd::barrier(world);
            for (int step = 0; step < 5; ++step) {
                std::vector<float> x(10);
                engine.allreduce("quote \" and \\ backslash", x).wait();
                if (world.rank() != 0) continue;
                const std::string text = read();
                expect(text.starts_with("[\n") && text.ends_with("]\n"), "open and shut: " + text);
                expect(std::count(text.begin(), text.end(), '{') == std::count(text.begin(), text.end(), '}'),
                       "balanced");
            }
            hvd::barrier(world);
            if (world.rank() == 0) {
                const std::string text = read();
                for (const char* part : {"WAIT", "CYCLE", "allreduce", "quote \\\" and \\\\ backslash"})
                    expect(text.find(part) != std::string::npos, std::string{part} + " is missing in " + text);
            }
            engine.stop_timeline();
        }
    });
    std::remove(path.c_str());
}

TEST_CASE("results are the same bits with and without a thread") {
    std::vector<float> results[2];
    for (bool background : {true, false}) {
        CHECK(hvd::launch<hvd::Local>(3, [&](auto& world) {
                  hvd::Engine engine{world, {.fusion_threshold = 2000, .background = background}};
                  std::mt19937 random{static_cast<unsigned>(world.rank())};
                  std::vector<std::vector<float>> t(30);
                  for (int step = 0; step < 3; ++step) {
                      std::vector<hvd::Request> requests;
                      for (std::size_t i = 0; i < t.size(); ++i) {
                          t[i].resize(10 + 17 * i);
                          for (float& x : t[i]) x = static_cast<float>(random()) / 1e6f;
                          requests.push_back(engine.allreduce(std::to_string(i), t[i], hvd::average));
                      }
                      engine.synchronize();
                  }
                  if (world.rank() == 0)
                      for (const auto& v : t) results[background].insert(results[background].end(), v.begin(), v.end());
              }) == 0);
    }
    CHECK(results[0] == results[1]);
}

TEST_CASE("options that make no sense are sentences") {
    on_workers({1}, [](const World& world) {
        ::setenv("HVD_FUSION_TRESHOLD", "1", 1);
        const std::string text = text_of<hvd::UsageError>([&] { hvd::Engine engine{world}; });
        ::unsetenv("HVD_FUSION_TRESHOLD");
        expect(text.find("HVD_FUSION_TRESHOLD") != std::string::npos, "a misspelt variable: " + text);
        ::setenv("HVD_FUSION_THRESHOLD", "many", 1);
        const std::string number = text_of<hvd::UsageError>([&] { hvd::Engine engine{world}; });
        ::unsetenv("HVD_FUSION_THRESHOLD");
        expect(number.find("'many'") != std::string::npos, number);
    });
}
