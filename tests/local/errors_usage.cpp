// Calls that are wrong on one rank, or on all: who gets which error, blocking and asynchronous, with checks and without.
#include "workers.hpp"

#include <array>
#include <new>

// A tensor that cannot always get memory.
struct Stubborn {
    std::vector<int> elements{};
    bool throws = false;
};
template <>
struct hvd::tensor_traits<Stubborn> {
    using value_type = int;
    static int* data(Stubborn& x) { return x.elements.data(); }
    static std::size_t size(const Stubborn& x) { return x.elements.size(); }
    static void resize(Stubborn& x, std::span<const std::size_t> shape) {
        if (x.throws) throw std::bad_alloc{};
        x.elements.resize(shape[0]);
    }
};

namespace {

// A tensor whose adapter contradicts itself.
struct Crooked {
    std::vector<float> elements{1, 2, 3, 4, 5};
};

const std::vector<int> sizes{2, 3, 4, 5};

// `call(wrong)` on every rank, where `wrong` holds on one of them: each in turn.
void each_wrong_in_turn(const World& world, const std::function<void(bool wrong)>& call,
                        const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    for (int who = 0; who < world.size(); ++who)
        expect_one_wrong(
            world, who, [&] { call(world.rank() == who); }, file, line);
}

}  // namespace

template <>
struct hvd::tensor_traits<Crooked> {
    using value_type = float;
    static float* data(Crooked& x) { return x.elements.data(); }
    static std::size_t size(const Crooked& x) { return x.elements.size(); }
    static std::vector<std::size_t> shape(const Crooked&) { return {2, 2}; }
};

TEST_CASE("a root that does not exist, on one rank") {
    on_workers(sizes, [](const World& world) {
        std::vector<float> x(3), out;
        each_wrong_in_turn(world, [&](bool wrong) { hvd::broadcast(world, x, wrong ? world.size() : 0); });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::broadcast(world, x, wrong ? -1 : 0); });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::reduce(world, x, wrong ? -1 : world.size() - 1); });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::gather(world, x, out, wrong ? 1000 : 1); });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::scatter(world, x, out, wrong ? -5 : 0); });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::broadcast_async(world, x, wrong ? -1 : 0).wait(); });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::reduce_async(world, x, wrong ? -1 : 0).wait(); });
    });
}

TEST_CASE("a root that does not exist, on all") {
    on_workers({1, 2, 3, 4}, [](const World& world) {
        std::vector<float> x(3), out;
        std::string word;
        for (int root : {-1, world.size(), 1 << 30}) {
            expect_all_wrong(world, [&] { hvd::broadcast(world, x, root); });
            expect_all_wrong(world, [&] { hvd::reduce(world, x, root); });
            expect_all_wrong(world, [&] { hvd::gather(world, x, out, root); });
            expect_all_wrong(world, [&] { hvd::scatter(world, x, out, root); });
            expect_all_wrong(world, [&] { hvd::broadcast_object(world, word, root); });
            expect_all_wrong(world, [&] { hvd::broadcast_async(world, x, root).wait(); });
            // A different one on each rank.
            if (world.size() > 1)
                expect_all_wrong(world, [&] {
                    hvd::broadcast(world, x, root < 0 ? root - world.rank() : world.size() + world.rank());
                });
        }
        const std::string text = expect_throws<hvd::UsageError>([&] { hvd::broadcast(world, x, 77); });
        expect(
            text.find("77") != text.npos && text.find("broadcast on rank " + std::to_string(world.rank())) != text.npos,
            "the text does not say which root and where: " + text);
    });
}

TEST_CASE("an output that is too short and cannot grow") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        const std::vector<int> in(4, world.rank());
        const std::vector<int> rows(2 * p, 1);
        std::vector<int> enough(20 * p);
        const auto room = [&](bool wrong, std::size_t needed) {
            return std::span{enough.data(), wrong ? needed - 1 : needed};
        };
        each_wrong_in_turn(world, [&](bool wrong) { hvd::allreduce(world, in, room(wrong, 4)); });
        each_wrong_in_turn(world, [&](bool wrong) {
            std::array<int, 3> three{};
            std::array<int, 4> four{};
            if (wrong) hvd::allreduce(world, in, three);
            else hvd::allreduce(world, in, four);
        });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::allgather(world, in, room(wrong, 4 * p)); });
        each_wrong_in_turn(world, [&](bool wrong) { hvd::reduce_scatter(world, rows, room(wrong, 2)); });
        const std::vector<std::size_t> counts(p, 2);
        each_wrong_in_turn(world, [&](bool wrong) { hvd::alltoall(world, rows, counts, room(wrong, 2 * p)); });
        for (int root = 0; root < world.size(); ++root) {
            expect_one_wrong(world, root, [&] { hvd::gather(world, in, room(world.rank() == root, 4 * p), root); });
            hvd::gather(world, in, room(world.rank() != root, 4 * p), root);  // what others pass does not matter
        }
        each_wrong_in_turn(world, [&](bool wrong) { hvd::scatter(world, rows, counts, room(wrong, 2), 0); });
        each_wrong_in_turn(world, [&](bool wrong) {
            auto request = hvd::allgather_async(world, in, room(wrong, 4 * p));
            request.wait();
        });
        // Longer than needed is fine.
        std::span<int> wide{enough.data(), 4 * p + 3};
        hvd::allgather(world, in, wide);
        expect(enough[4 * p - 1] == world.size() - 1, "allgather into a longer output");
    });
}

TEST_CASE("an output that throws when it is resized") {
    on_workers(sizes, [](const World& world) {
        const std::vector<int> in(3, world.rank());
        for (int who = 0; who < world.size(); ++who) {
            Stubborn out;
            out.throws = world.rank() == who;
            expect_one_wrong(world, who, [&] { hvd::allgather(world, in, out); });
            expect_one_wrong(world, who, [&] { hvd::allgather_async(world, in, out).wait(); });
            out.throws = false;
            hvd::allgather(world, in, out);
            expect(out.elements.back() == world.size() - 1, "afterwards");
        }
    });
}

TEST_CASE("an output that shares memory with the input, other than in place") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
        const std::vector<std::size_t> one_each(p, 1);
        // One rank is wrong, by a vector that would move as it grows, or by views that cross.
        const auto is_refused = [&](auto&& right, auto&& wrong) {
            if (r == 1) {
                const std::string text = expect_throws<hvd::UsageError>(wrong);
                expect(text.find("share memory") != std::string::npos, text);
            } else {
                expect_throws<hvd::MismatchError>(right);
            }
            expect_works(world);
        };
        std::vector<int> x(p, 1), y;
        is_refused([&] { hvd::alltoall(world, x, one_each, y); }, [&] { hvd::alltoall(world, x, one_each, x); });
        is_refused([&] { hvd::allgather(world, x, y); }, [&] { hvd::allgather(world, x, x); });
        is_refused([&] { hvd::reduce_scatter(world, x, y); }, [&] { hvd::reduce_scatter(world, x, x); });
        is_refused([&] { hvd::gather(world, x, y, 1); }, [&] { hvd::gather(world, x, x, 1); });
        is_refused([&] { hvd::scatter(world, x, one_each, y, 1); }, [&] { hvd::scatter(world, x, one_each, x, 1); });
        std::vector<int> z(p + 1, 1);
        const std::span<int> first{z.data(), p}, second{z.data() + 1, p};
        is_refused([&] { hvd::allreduce(world, x, y); }, [&] { hvd::allreduce(world, first, second); });

        // In place, and on ranks where it is not used.
        std::vector<int> all(p, -1);
        all[r] = static_cast<int>(r);
        hvd::allgather(world, std::span<int>{all.data() + r, 1}, std::span<int>{all});
        for (std::size_t i = 0; i < p; ++i) expect(all[i] == static_cast<int>(i), "allgather in place");
        hvd::reduce_scatter(world, all, std::span<int>{all.data() + r, 1});
        expect(all[r] == static_cast<int>(p * r), "reduce_scatter in place");
        hvd::gather(world, std::span<int>{all.data() + r, 1}, std::span<int>{all}, 1);
        if (r == 1)
            for (std::size_t i = 0; i < p; ++i) expect(all[i] == static_cast<int>(p * i), "gather in place");
        hvd::scatter(world, all, one_each, std::span<int>{all.data() + r, 1}, 1);
        expect(all[r] == static_cast<int>(p * r), "scatter in place");
        hvd::scatter_async(world, all, one_each, y, 1).wait();
        expect(y == std::vector<int>{static_cast<int>(p * r)}, "scatter_async by counts");
    });
}

TEST_CASE("a list in which tensors share memory") {
    on_workers(sizes, [](const World& world) {
        std::vector<float> x(10, 1), y(10, 1), long_one(200000, 1);
        std::vector<double> d(10, 1);
        each_wrong_in_turn(world, [&](bool wrong) {
            if (wrong) hvd::allreduce(world, std::tie(x, x, d));
            else hvd::allreduce(world, std::tie(x, y, d));
        });
        each_wrong_in_turn(world, [&](bool wrong) {
            std::vector<std::span<float>> list{{long_one.data() + 1000, 1000}, {y}, {long_one.data(), 1000}};
            if (wrong) list[2] = {long_one.data() + 1, 1000};
            hvd::allreduce_async(world, list).wait();
        });
        for (const auto* all : {&x, &y, &long_one})
            for (float e : *all) expect(e == 1, "a refused list was changed");
        std::vector<std::span<float>> neighbours{{long_one.data() + 5, 5}, {}, {long_one.data(), 5}, {}};
        hvd::allreduce(world, neighbours);
        expect(long_one[9] == static_cast<float>(world.size()) && long_one[10] == 1, "neighbours share nothing");
    });
}

TEST_CASE("alltoall: counts") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        const std::vector<int> rows(2 * p, 1);
        std::vector<int> out;
        const auto call = [&](std::vector<std::size_t> counts) { hvd::alltoall(world, rows, counts, out); };
        std::vector<std::size_t> right(p, 2), too_many = right, too_few_rows = right, short_list(p - 1, 2),
                                              long_list(p + 1, 2);
        ++too_many[0];
        --too_few_rows[p - 1];
        std::vector<std::size_t> beyond = right;  // whose sum is right again, modulo 2^64
        if (p > 1) beyond[0] = ~std::size_t{0}, beyond[1] = 5;
        else beyond[0] = ~std::size_t{0};
        for (const auto& wrong_counts : {beyond, too_many, too_few_rows, short_list, long_list, {}}) {
            each_wrong_in_turn(world, [&](bool wrong) { call(wrong ? wrong_counts : right); });
            expect_all_wrong(world, [&] { call(wrong_counts); });
        }
    });
}

TEST_CASE("scatter and gather: counts, rows, shapes") {
    on_workers(sizes, [](const World& world) {
        const auto p = static_cast<std::size_t>(world.size());
        const std::vector<int> rows(2 * p, 1);
        std::vector<int> out(2);
        for (int root = 0; root < world.size(); ++root) {
            const bool is_root = world.rank() == root;
            // Only the root sees that what the ranks want does not add up.
            expect_one_wrong(world, root,
                             [&] { hvd::scatter(world, is_root ? std::vector<int>(2 * p + 1) : rows, out, root); });
            std::vector<std::size_t> counts(p, 2);
            ++counts[0];
            expect_one_wrong(world, root, [&] { hvd::scatter(world, rows, counts, out, root); });
            std::vector<std::size_t> beyond(p, 2);
            beyond[0] = ~std::size_t{0};
            if (p > 1) beyond[1] = 5;
            expect_one_wrong(world, root, [&] { hvd::scatter(world, rows, beyond, out, root); });
            expect_one_wrong(world, root,
                             [&] { hvd::scatter(world, rows, std::vector<std::size_t>(p - 1, 2), out, root); });
            std::vector<std::size_t> right(p, 2);
            hvd::scatter(world, rows, right, out, root);
            expect(out.size() == 2 && out[1] == 1, "scatter by counts");
        }
        const Matrix wide{p, 3};
        each_wrong_in_turn(world, [&](bool wrong) {
            Matrix one_row{1, wrong ? 2u : 3u};
            hvd::scatter(world, wide, one_row, 0);
        });
        const Crooked crooked;
        std::vector<float> in(5), result;
        each_wrong_in_turn(world, [&](bool wrong) {
            if (wrong) hvd::allgather(world, crooked, result);
            else hvd::allgather(world, in, result);
        });
    });
}

TEST_CASE("subset and split") {
    on_workers(sizes, [](const World& world) {
        const int p = world.size();
        expect_all_wrong(world, [&] { static_cast<void>(world.subset({0, 0})); });
        const auto with_missing = world.subset({p, 0, p + 7});  // ranks that this world has not are left out
        expect(with_missing.is_member() == (world.rank() == 0), "a subset that names ranks beyond the last");
        expect_all_wrong(world, [&] { static_cast<void>(world.subset({-1})); });
        each_wrong_in_turn(world, [&](bool wrong) {
            if (wrong) static_cast<void>(world.subset({0, 1, 0}));
            else static_cast<void>(world.subset({0, 1}));
        });
        // Not a member.
        const auto first = world.subset({0});
        expect(first.is_member() == (world.rank() == 0), "is_member");
        if (!first.is_member()) {
            std::vector<int> x(3);
            std::string word;
            expect_throws<hvd::UsageError>([&] { hvd::barrier(first); });
            expect_throws<hvd::UsageError>([&] { hvd::allreduce(first, x); });
            expect_throws<hvd::UsageError>([&] { hvd::allreduce_async(first, x).wait(); });
            expect_throws<hvd::UsageError>([&] { hvd::broadcast(first, x, 0); });
            expect_throws<hvd::UsageError>([&] { hvd::allgather_object(first, word); });
            expect_throws<hvd::UsageError>([&] { static_cast<void>(first.rank()); });
            expect_throws<hvd::UsageError>([&] { static_cast<void>(first.split(0)); });
            expect_throws<hvd::UsageError>([&] { static_cast<void>(first.with(hvd::Ring{})); });
        } else {
            expect_works(first);
        }
        const auto nobody = world.subset(std::span<const int>{});
        expect(!nobody.is_member(), "the empty subset");
        const auto none = world.split(-1);
        expect(!none.is_member(), "a negative color");
        expect_works(world);
    });
}

TEST_CASE("asynchronous calls: the error comes at wait, to everybody, again and again") {
    on_workers(sizes, [](const World& world) {
        for (std::size_t n : {2u, 50000u}) {
            expect_mismatch(world, [&] {
                std::vector<float> x(n + (world.rank() == 1 ? 1 : 0));
                hvd::Request request = hvd::allreduce_async(world, x);
                try {
                    request.wait();
                } catch (const hvd::MismatchError&) {
                    expect(request.ready(), "a failed request is ready");
                    expect_throws<hvd::MismatchError>([&] { request.get(); });
                    throw;
                }
            });
            // The calls before and after it are well.
            std::vector<float> before(n, 1), wrong(n + (world.rank() == 0 ? 1 : 0)), after(n, 2);
            hvd::Request first = hvd::allreduce_async(world, before), second = hvd::allreduce_async(world, wrong),
                         third = hvd::allreduce_async(world, after);
            third.wait();
            expect_throws<hvd::MismatchError>([&] { second.wait(); });
            first.wait();
            const auto p = static_cast<float>(world.size());
            expect(before[n - 1] == p && after[n - 1] == 2 * p, "the neighbours of a refused call");
            expect_works(world);
            // Nobody waits: the request goes with its error, and the communicator works.
            { const hvd::Request ignored = hvd::allreduce_async(world, wrong); }
            expect_works(world);
        }
        // Every kind of call.
        const auto p = static_cast<std::size_t>(world.size());
        const bool odd = world.rank() == world.size() - 1;
        std::vector<int> x(odd ? 3 : 4), out;
        std::vector<std::size_t> received;
        std::vector<std::size_t> counts(p);
        counts[0] = x.size() + (odd ? 1 : 0);
        expect_mismatch(world, [&] { hvd::broadcast_async(world, x, 0).wait(); });
        expect_mismatch(world, [&] { hvd::reduce_async(world, x, 0).wait(); });
        expect_mismatch(world, [&] { hvd::reduce_scatter_async(world, x, out).wait(); });
        expect_mismatch(world, [&] { hvd::gather_async(world, x, out, odd ? 1 : 0).wait(); });
        expect_mismatch(world, [&] { hvd::scatter_async(world, x, out, odd ? 1 : 0).wait(); });
        expect_mismatch(world, [&] { (odd ? hvd::barrier_async(world) : hvd::broadcast_async(world, x, 0)).wait(); });
        std::vector<float> other(x.size());
        expect_mismatch(world, [&] { hvd::allreduce_async(world, std::tie(x, other)).wait(); });
        expect_one_wrong(world, world.size() - 1, [&] { hvd::alltoall_async(world, x, counts, out, received).wait(); });
        std::vector<double> y(4), out_y;
        expect_mismatch(
            world, [&] { (odd ? hvd::allgather_async(world, x, out) : hvd::allgather_async(world, y, out_y)).wait(); });
    });
}

TEST_CASE("without checks a rank sees its own errors, and right calls work") {
    on_workers({1, 2, 3, 5},
               [](const World& world) {
                   std::vector<int> x(3), out;
                   expect(!world.options().checks, "checks are off");
                   const auto p = static_cast<std::size_t>(world.size());
                   expect_all_wrong(world, [&] { hvd::broadcast(world, x, world.size()); });
                   expect_all_wrong(world, [&] { hvd::reduce(world, x, -1); });
                   expect_all_wrong(world, [&] { hvd::gather(world, x, out, -1); });
                   expect_all_wrong(world, [&] { hvd::scatter(world, x, out, -1); });
                   expect_all_wrong(world, [&] { hvd::broadcast_async(world, x, -1).wait(); });
                   expect_all_wrong(world,
                                    [&] { hvd::alltoall(world, x, std::vector<std::size_t>(p, 3), std::span<int>{}); });
                   expect_all_wrong(world, [&] { static_cast<void>(world.subset({0, 0})); });
                   expect_all_wrong(world, [&] { hvd::allreduce(world, x, std::span{x.data(), 2}); });
                   // A rank alone in the wrong leaves the others alone, who have not called.
                   if (world.rank() == 0)
                       expect_throws<hvd::UsageError>([&] { hvd::allreduce(world, x, std::span<int>{}); });
               },
               {.checks = false});
}
