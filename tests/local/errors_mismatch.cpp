// Ranks that make different calls: the same error on all, and the communicator goes on.
#include "workers.hpp"

#include <array>
#include <cstdint>

namespace {

// `call(odd)` on every rank, where `odd` holds on one of them: each in turn.
void each_in_turn(const World& world, const std::function<void(const World&, bool odd)>& call,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    for (int who = 0; who < world.size(); ++who) {
        const std::string text = expect_mismatch(
            world, [&] { call(world, world.rank() == who); }, file, line);
        if (world.size() > 2)
            expect(text.find("rank " + std::to_string(who)) != text.npos, "the odd rank is not named: " + text, file,
                   line);
    }
}

const std::vector<int> sizes{2, 3, 4, 5, 8};

}  // namespace

TEST_CASE("allreduce: lengths") {
    on_workers(sizes, [](const World& world) {
        const std::vector<std::pair<std::size_t, std::size_t>> pairs{
            {3, 4}, {0, 1}, {1, 0}, {4, 100000}, {100000, 4}, {100000, 100001}, {1023, 1025}};
        for (const auto& [usual, other] : pairs) {
            each_in_turn(world, [&, usual = usual, other = other](const World& w, bool odd) {
                std::vector<float> x(odd ? other : usual, 1.5f);
                try {
                    hvd::allreduce(w, x);
                } catch (const hvd::Error&) {
                    for (float e : x) expect(e == 1.5f, "the tensor of a refused call was changed");
                    throw;
                }
            });
        }
        const std::string text = expect_mismatch(world, [&] {
            std::vector<float> x(static_cast<std::size_t>(world.rank()) + 1);
            hvd::allreduce(world, x);
        });
        expect(text.find("allreduce") != text.npos && text.find("float") != text.npos,
               "the text does not say what: " + text);
    });
}

TEST_CASE("allreduce: element types, operations, scales") {
    on_workers(sizes, [](const World& world) {
        for (std::size_t n : {2u, 5000u}) {
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                std::vector<std::int32_t> y(n);
                if (odd) hvd::allreduce(w, y);
                else hvd::allreduce(w, x);
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n), out(n);
                std::vector<double> y(n);
                if (odd) hvd::allreduce(w, y);
                else hvd::allreduce(w, x, out, hvd::sum);
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<hvd::float16> x(n);
                std::vector<hvd::bfloat16> y(n);
                if (odd) hvd::allreduce(w, y);
                else hvd::allreduce(w, x);
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<int> x(n);
                if (odd) hvd::allreduce(w, x, hvd::max);
                else hvd::allreduce(w, x);
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                if (odd) hvd::allreduce(w, x, hvd::average);
                else hvd::allreduce(w, x, hvd::sum);
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                if (odd) hvd::allreduce(w, x, hvd::adasum);
                else hvd::allreduce(w, x, hvd::sum);
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<int> x(n);
                if (odd) hvd::allreduce(w, x, [](int a, int b) { return a ^ b; });
                else hvd::allreduce(w, x, hvd::sum);
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                hvd::allreduce(w, x, hvd::sum, {.prescale = odd ? 0.5 : 1.0});
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                hvd::allreduce(w, x, hvd::sum, {.prescale = 2.0, .postscale = odd ? 0.5 : 0.25});
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                hvd::allreduce(w, x, hvd::sum,
                               odd ? hvd::ReduceOptions{.prescale = 2.0} : hvd::ReduceOptions{.postscale = 2.0});
            });
        }
    });
}

TEST_CASE("groups of different make-up") {
    on_workers(sizes, [](const World& world) {
        std::vector<float> a(3), b(5), c(3);
        std::vector<double> d(3);
        std::vector<int> i(3);
        const auto pair = [&](const std::function<void(const World&)>& usual,
                              const std::function<void(const World&)>& other) {
            each_in_turn(world, [&](const World& w, bool odd) { (odd ? other : usual)(w); });
        };
        const auto usual = [&](const World& w) { hvd::allreduce(w, std::tie(a, b)); };
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tie(b, a)); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tie(a)); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tie(a, b, c)); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tuple<>{}); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tie(a, d)); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tie(a, i)); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tie(a, b), hvd::max); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, std::tie(a, b), hvd::sum, {.postscale = 3}); });
        pair(usual, [&](const World& w) { hvd::allreduce(w, a); });
        pair(usual, [&](const World& w) { hvd::barrier(w); });
        pair([&](const World& w) { hvd::allreduce(w, std::tie(a, d)); },
             [&](const World& w) { hvd::allreduce(w, std::tie(d, a)); });
        pair([&](const World& w) { hvd::allreduce(w, std::tie(a)); }, [&](const World& w) { hvd::allreduce(w, a); });
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<std::vector<float>> list(odd ? 4 : 3, std::vector<float>(10));
            hvd::allreduce(w, list);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<std::vector<float>> list(3, std::vector<float>(300000));
            list[odd ? 1 : 2].resize(299999);
            hvd::allreduce(w, list);
        });
    });
}

TEST_CASE("a list and a tuple of the same tensors are the same group") {
    on_workers({2, 3}, [](const World& world) {
        std::vector<std::vector<float>> list(2, std::vector<float>(3, 1));
        if (world.rank() == 0) hvd::allreduce(world, list);
        else hvd::allreduce(world, std::tie(list[0], list[1]));
        expect(list[1][2] == static_cast<float>(world.size()), "the sum of the group");
    });
}

TEST_CASE("different kinds of call") {
    const std::size_t n = 4;
    const std::vector<std::function<void(const World&)>> calls{
        [](const World& w) { hvd::barrier(w); },
        [](const World& w) {
            std::vector<int> x(n);
            hvd::allreduce(w, x);
        },
        [](const World& w) {
            std::vector<int> x(70000);
            hvd::allreduce(w, x);
        },
        [](const World& w) {
            std::vector<int> x(n);
            hvd::broadcast(w, x, 0);
        },
        [](const World& w) {
            std::vector<int> x(n);
            hvd::reduce(w, x, 0);
        },
        [](const World& w) { static_cast<void>(hvd::allgather(w, std::vector<int>(n))); },
        [](const World& w) {
            std::vector<int> x(n), out;
            std::vector<std::size_t> counts(static_cast<std::size_t>(w.size()));
            counts[0] = n;
            hvd::alltoall(w, x, counts, out);
        },
        [](const World& w) {
            std::vector<int> x(n), out;
            hvd::reduce_scatter(w, x, out);
        },
        [](const World& w) {
            std::vector<int> x(n), out;
            hvd::gather(w, x, out, 0);
        },
        [](const World& w) {
            std::vector<int> x(n), out;
            hvd::scatter(w, x, out, 0);
        },
        [](const World& w) {
            std::string x = "words";
            hvd::broadcast_object(w, x, 0);
        },
        [](const World& w) { hvd::allgather_object(w, std::string{"words"}); },
        [](const World& w) { static_cast<void>(w.split(0)); },
        [](const World& w) {
            static_cast<void>(w.subset({0, 1}));
        },
        [](const World& w) { static_cast<void>(w.with(hvd::Ring{})); },
    };
    on_workers({2, 3, 5}, [&](const World& world) {
        for (std::size_t a = 0; a < calls.size(); ++a) {
            for (std::size_t b = 0; b < calls.size(); ++b) {
                if (a == b) continue;
                const int who = static_cast<int>(a + b) % world.size();
                try {
                    expect_mismatch(world, [&] { (world.rank() == who ? calls[b] : calls[a])(world); });
                } catch (const hvd::testing::Failure& failure) {
                    throw hvd::testing::Failure{"calls " + std::to_string(a) + " and " + std::to_string(b) + ": " +
                                                failure.what()};
                }
            }
        }
    });
}

TEST_CASE("roots differ") {
    on_workers(sizes, [](const World& world) {
        for (std::size_t n : {3u, 90000u}) {
            const auto root = [](const World& w, bool odd) { return odd ? w.size() - 1 : 0; };
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                hvd::broadcast(w, x, root(w, odd));
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n);
                hvd::reduce(w, x, root(w, odd));
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n), out;
                hvd::gather(w, x, out, root(w, odd));
            });
            each_in_turn(world, [&](const World& w, bool odd) {
                std::vector<float> x(n), out;
                hvd::scatter(w, x, out, root(w, odd));
            });
        }
    });
}

TEST_CASE("the other collectives: lengths, types, operations, shapes") {
    on_workers(sizes, [](const World& world) {
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<float> x(odd ? 4 : 3);
            hvd::broadcast(w, x, 0);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<float> x(3);
            std::vector<int> y(3);
            if (odd) hvd::broadcast(w, y, 0);
            else hvd::broadcast(w, x, 0);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<float> x(3);
            if (odd) hvd::reduce(w, x, 0, hvd::min);
            else hvd::reduce(w, x, 0, hvd::max);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<float> x(20), out;
            if (odd) hvd::reduce_scatter(w, x, out, hvd::min);
            else hvd::reduce_scatter(w, x, out, hvd::max);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<float> x(odd ? 20 : 21), out;
            hvd::reduce_scatter(w, x, out);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            Matrix x{6, odd ? 2u : 3u}, out;
            hvd::reduce_scatter(w, x, out);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            Matrix x{6, odd ? 2u : 3u}, out;
            hvd::allgather(w, x, out);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            Matrix x{0, odd ? 2u : 3u}, out;  // also when no rank has a row
            hvd::allgather(w, x, out);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            Matrix x{6, odd ? 2u : 3u}, out;
            hvd::gather(w, x, out, 1);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            std::vector<float> x(5), out;
            std::vector<double> y(5), out_y;
            if (odd) hvd::allgather(w, y, out_y);
            else hvd::allgather(w, x, out);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            const auto p = static_cast<std::size_t>(w.size());
            Matrix x{p, odd ? 2u : 3u}, out;
            hvd::alltoall(w, x, std::vector<std::size_t>(p, 1), out);
        });
        each_in_turn(world, [](const World& w, bool odd) {
            if (odd) static_cast<void>(w.subset({1, 0}));
            else static_cast<void>(w.subset({0, 1}));
        });
        each_in_turn(world, [](const World& w, bool odd) {
            if (odd) static_cast<void>(w.with(hvd::Ring{}));
            else static_cast<void>(w.with(hvd::Tree{}));
        });
        // Objects of different types need not name the ranks.
        for (int who = 0; who < world.size(); ++who) {
            int number = 1;
            std::string word = "w";
            expect_throws<hvd::MismatchError>([&] {
                if (world.rank() == who) hvd::broadcast_object(world, number, 0);
                else hvd::broadcast_object(world, word, 0);
            });
            expect_works(world);
            expect_throws<hvd::MismatchError>([&] {
                if (world.rank() == who) hvd::allgather_object(world, number);
                else hvd::allgather_object(world, word);
            });
            expect_works(world);
        }
    });
}

TEST_CASE("named algorithms find out, too") {
    on_workers({2, 3, 4}, [](const World& world) {
        const auto try_with = [&](const auto& comm) {
            for (int who = 0; who < comm.size(); ++who) {
                for (std::size_t n : {1u, 3000u}) {
                    expect_mismatch(comm, [&] {
                        std::vector<double> x(comm.rank() == who ? n + 1 : n);
                        hvd::allreduce(comm, x);
                    });
                    expect_mismatch(comm, [&] {
                        std::vector<double> x(n);
                        if (comm.rank() == who) hvd::allreduce(comm, x, hvd::min);
                        else hvd::allreduce(comm, x);
                    });
                }
            }
        };
        try_with(world.with(hvd::Ring{}));
        try_with(world.with(hvd::Tree{}));
        try_with(world.with(hvd::HalvingDoubling{}));
        try_with(world.with(hvd::Native{}));
        try_with(world.with(hvd::Hierarchical{hvd::Ring{}, hvd::Tree{}}));
    });
}

TEST_CASE("options of an algorithm differ") {
    on_workers({2, 3}, [](const World& world) {
        using hvd::Direct, hvd::HalvingDoubling, hvd::Hierarchical, hvd::Ring, hvd::Tree;
        const auto differ = [&](const auto& usual, const auto& other) {
            each_in_turn(world, [&](const World& w, bool odd) { w.with(odd ? other : usual); });
            each_in_turn(world, [&](const World& w, bool odd) {
                hvd::Communicator{hvd::Local{w.transport()}, odd ? other : usual};
            });
            auto right = world.with(other);
            std::vector<int> x(100000, 1);
            hvd::allreduce(right, x);
            expect(x.back() == world.size(), "equal options work");
        };
        differ(Ring{64}, Ring{4096});
        differ(Tree{1}, Tree{std::size_t{1} << 30});
        differ(HalvingDoubling{4096}, HalvingDoubling{8192});
        differ(Direct{4096}, Direct{65536});
        differ(Direct{.slots = 2}, Direct{.slots = 5});
        differ(Hierarchical{Direct{}, Ring{}}, Hierarchical{Direct{}, Ring{4096}});
        differ(Hierarchical{Direct{}, Ring{}, 0}, Hierarchical{Direct{}, Ring{}, 4096});
        const std::string text = expect_mismatch(world, [&] { world.with(Ring{world.rank() == 0 ? 64u : 4096u}); });
        expect(text.find("ring {64}") != text.npos && text.find("ring {4096}") != text.npos, "says what: " + text);
    });
}

TEST_CASE("two ranks that pass different shapes of the same length agree") {
    on_workers({2, 3}, [](const World& world) {
        Matrix x = world.rank() == 0 ? Matrix{2, 6, 1} : Matrix{3, 4, 1};
        hvd::allreduce(world, x);
        expect(x.elements[11] == 12 * world.size(), "the sum");
        expect(x.shape[0] == (world.rank() == 0 ? 2u : 3u), "the shape stays");
    });
}
