// The schedules reach their goals: proved at compile time for 1 to 16 ranks, at run time up to 64; and what they cost.
#include <doctest/doctest.h>

#include <hvd/algorithm/chain.hpp>
#include <hvd/algorithm/halving_doubling.hpp>
#include <hvd/algorithm/recursive_doubling.hpp>
#include <hvd/algorithm/ring.hpp>
#include <hvd/algorithm/tree.hpp>
#include <hvd/testing/prove_schedule.hpp>

namespace {

using hvd::testing::Goal;
using hvd::testing::reaches;

constexpr bool ring(int p, std::size_t segments) {
    using Part = hvd::RingSchedule::Part;
    const auto make = [&](Part part) { return [=](int r) { return hvd::RingSchedule{r, p, segments, part}; }; };
    return reaches(Goal::Allreduce, p, make(Part::Allreduce)) &&
           reaches(Goal::ReduceScatter, p, make(Part::ReduceScatter)) &&
           reaches(Goal::Allgather, p, make(Part::Allgather));
}

// Functions, since clang 14 cannot evaluate these initialisers in a lambda.
constexpr hvd::HalvingDoublingSchedule halving_doubling_of(int r, int p, std::size_t pieces) { return {r, p, pieces}; }
constexpr hvd::RecursiveDoublingSchedule recursive_doubling_of(int r, int p) { return {r, p}; }
constexpr hvd::DoubleTreeSchedule double_tree_of(int r, int p, std::size_t segments) { return {r, p, segments}; }

constexpr bool halving_doubling(int p, std::size_t pieces) {
    return reaches(Goal::Allreduce, p, [=](int r) { return halving_doubling_of(r, p, pieces); });
}

constexpr bool recursive_doubling(int p) {
    return reaches(Goal::Allreduce, p, [=](int r) { return recursive_doubling_of(r, p); });
}

constexpr bool binomial(int p, int root) {
    using Part = hvd::BinomialSchedule::Part;
    const auto make = [&](Part part) { return [=](int r) { return hvd::BinomialSchedule{r, p, root, part}; }; };
    return reaches(Goal::Allreduce, p, make(Part::Allreduce)) && reaches(Goal::Reduce, p, make(Part::Reduce), root) &&
           reaches(Goal::Broadcast, p, make(Part::Broadcast), root);
}

constexpr bool double_tree(int p, std::size_t segments) {
    return reaches(Goal::Allreduce, p, [=](int r) { return double_tree_of(r, p, segments); });
}

constexpr bool chain(int p, int root, std::size_t segments) {
    using Part = hvd::ChainSchedule::Part;
    const auto make = [&](Part part) { return [=](int r) { return hvd::ChainSchedule{r, p, root, segments, part}; }; };
    return reaches(Goal::Reduce, p, make(Part::Reduce), root) &&
           reaches(Goal::Broadcast, p, make(Part::Broadcast), root);
}

constexpr bool short_chain(int p, int root) { return chain(p, root, 2); }

constexpr bool for_roots(int first, int last, int p, bool (*proof)(int p, int root)) {
    for (int root = first; root < last && root < p; ++root)
        if (!proof(p, root)) return false;
    return true;
}

// Each assertion is an evaluation of its own, since compilers limit their length.
template <int P>
struct Proved {
    static_assert(ring(P, 1));
    static_assert(P > 8 || ring(P, 3));
    static_assert(halving_doubling(P, 1));
    static_assert(halving_doubling(P, 2));
    static_assert(halving_doubling(P, 4));
    static_assert(recursive_doubling(P));
    static_assert(for_roots(0, 4, P, binomial));
    static_assert(for_roots(4, 8, P, binomial));
    static_assert(for_roots(8, 12, P, binomial));
    static_assert(for_roots(12, 16, P, binomial));
    static_assert(double_tree(P, 1));
    static_assert(double_tree(P, 2));
    static_assert(double_tree(P, 5));
    static_assert(for_roots(0, 4, P, short_chain));
    static_assert(for_roots(4, 8, P, short_chain));
    static_assert(for_roots(8, 12, P, short_chain));
    static_assert(for_roots(12, 16, P, short_chain));
    static constexpr bool yes = true;
};
static_assert(Proved<1>::yes && Proved<2>::yes && Proved<3>::yes && Proved<4>::yes && Proved<5>::yes &&
              Proved<6>::yes && Proved<7>::yes && Proved<8>::yes && Proved<9>::yes && Proved<10>::yes &&
              Proved<11>::yes && Proved<12>::yes && Proved<13>::yes && Proved<14>::yes && Proved<15>::yes &&
              Proved<16>::yes);

// The two trees: no rank is inner in both, and no rank has more than two children in one.
constexpr bool trees_share_the_work(int p) {
    for (int r = 0; r < p; ++r) {
        int inner = 0;
        for (int which : {0, 1}) {
            const hvd::TreeLinks links = hvd::double_tree(which, r, p);
            if (links.parent == r || links.parent >= p || links.child[0] >= p || links.child[1] >= p) return false;
            if (links.child[0] >= 0 && links.child[1] >= 0) ++inner;
        }
        if (inner > 1) return false;
    }
    return true;
}
constexpr bool trees_share_the_work_up_to(int last) {
    for (int p = 1; p <= last; ++p)
        if (!trees_share_the_work(p)) return false;
    return true;
}
static_assert(trees_share_the_work_up_to(64));

// A schedule that is wrong is found out.
struct Lossy {
    hvd::RingSchedule ring;
    constexpr std::size_t chunks() const { return ring.chunks(); }
    constexpr std::size_t steps() const { return ring.steps() - 1; }
    constexpr hvd::Step step(std::size_t i) const { return ring.step(i); }
};
struct Doubling {  // folds where it should replace: contributions count twice
    hvd::RingSchedule ring;
    constexpr std::size_t chunks() const { return ring.chunks(); }
    constexpr std::size_t steps() const { return ring.steps(); }
    constexpr hvd::Step step(std::size_t i) const {
        hvd::Step step = ring.step(i);
        step.fold = true;
        return step;
    }
};
static_assert(!reaches(Goal::Allreduce, 4, [](int r) { return Lossy{{r, 4}}; }));
static_assert(!reaches(Goal::Allreduce, 4, [](int r) { return Doubling{{r, 4}}; }));
static_assert(!reaches(Goal::Allreduce, 4, [](int r) {
    return hvd::RingSchedule{r, 4, 1, hvd::RingSchedule::Part::ReduceScatter};
}));
static_assert(!reaches(
    Goal::Broadcast, 4,
    [](int r) {
        return hvd::BinomialSchedule{r, 4, 1, hvd::BinomialSchedule::Part::Broadcast};
    },
    2));
static_assert(!reaches(Goal::Allreduce, 4, [](int r) { return recursive_doubling_of(r, r == 3 ? 2 : 4); }));

struct Cost {
    std::size_t messages = 0, chunks = 0;
};
template <class S>
Cost cost_of(const S& schedule) {
    Cost cost;
    for (std::size_t i = 0; i < schedule.steps(); ++i) {
        const hvd::Step step = schedule.step(i);
        if (step.to < 0) continue;
        ++cost.messages;
        cost.chunks += step.send.count;
    }
    return cost;
}

}  // namespace

TEST_CASE("up to 64 ranks") {
    for (int p = 17; p <= 64; ++p) {
        CAPTURE(p);
        CHECK(ring(p, 1));
        CHECK(halving_doubling(p, 1));
        CHECK(recursive_doubling(p));
        for (int root : {0, 1, p / 2, p - 1}) {
            CHECK(binomial(p, root));
            CHECK(chain(p, root, 2));
        }
        CHECK(double_tree(p, 3));
    }
    for (int p = 1; p <= 16; ++p) {
        CAPTURE(p);
        CHECK(ring(p, 7));
        CHECK(halving_doubling(p, 8));
        CHECK(double_tree(p, 17));
        for (int root = 0; root < p; ++root) CHECK(chain(p, root, 9));
    }
}

TEST_CASE("Ring: 2(p-1) messages and 2(p-1)/p n bytes per rank, exactly") {
    for (int p = 1; p <= 64; ++p) {
        const auto turns = static_cast<std::size_t>(2 * (p - 1));
        for (int r = 0; r < p; ++r) {
            const Cost cost = cost_of(hvd::RingSchedule{r, p});
            CHECK(cost.messages == turns);
            CHECK(cost.chunks == turns);  // of n/p bytes
        }
    }
}

TEST_CASE("HalvingDoubling: 2 log2 p messages, and two more for ranks that are folded") {
    for (int p = 1; p <= 64; ++p) {
        const auto levels = static_cast<std::size_t>(hvd::detail::floor_log2(p));
        const std::size_t blocks = std::size_t{1} << levels;
        for (int r = 0; r < p; ++r) {
            const hvd::HalvingDoublingSchedule schedule{r, p};
            const Cost cost = cost_of(schedule);
            CAPTURE(p);
            CAPTURE(r);
            if (schedule.is_folded()) {
                CHECK(cost.messages == 1);
                CHECK(cost.chunks == blocks);  // n
            } else {
                CHECK(cost.messages == 2 * levels + (schedule.has_folded() ? 1 : 0));
                CHECK(cost.chunks == 2 * (blocks - 1) + (schedule.has_folded() ? blocks : 0));
            }
            if (blocks == static_cast<std::size_t>(p)) CHECK(!schedule.is_folded());
        }
    }
}

TEST_CASE("Tree: at most 2 ceil(log2 p) messages, n bytes to the parent and to each child") {
    for (int p = 1; p <= 64; ++p) {
        const auto levels = static_cast<std::size_t>(hvd::detail::ceil_log2(p));
        for (int r = 0; r < p; ++r) {
            const hvd::BinomialSchedule binomial_tree{r, p};
            const Cost cost = cost_of(binomial_tree);
            CAPTURE(p);
            CAPTURE(r);
            CHECK(cost.messages <= 2 * levels);
            CHECK(cost.messages == static_cast<std::size_t>(binomial_tree.children() + (r == 0 ? 0 : 1)));
            CHECK(cost.chunks == cost.messages);
            const hvd::DoubleTreeSchedule two_trees{r, p, 4};
            std::size_t links = 0;  // half of the data to each neighbour
            for (const hvd::TreeLinks& tree : two_trees.tree) {
                links += tree.parent >= 0 ? 1 : 0;
                for (int child : tree.child) links += child >= 0 ? 1 : 0;
            }
            CHECK(cost_of(two_trees).chunks == 4 * links);
            CHECK(links <= 4);  // 2 n bytes at most: each tree has one parent, and children in one of them only
        }
    }
}

TEST_CASE("RecursiveDoubling and Chain") {
    for (int p = 1; p <= 64; ++p) {
        for (int r = 0; r < p; ++r) {
            const hvd::RecursiveDoublingSchedule schedule{r, p};
            CHECK(cost_of(schedule).messages <= static_cast<std::size_t>(hvd::detail::floor_log2(p)) + 1);
            const Cost cost = cost_of(hvd::ChainSchedule{r, p, 0, 10, hvd::ChainSchedule::Part::Broadcast});
            CHECK(cost.chunks == (r == p - 1 ? 0u : 10u));  // n, but for the last
        }
    }
}
