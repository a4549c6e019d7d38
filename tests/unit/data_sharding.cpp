// ShardedDataset: who gets which samples, in every mode, through every change of the world.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <hvd/data/sharded_dataset.hpp>

using hvd::Last;
using hvd::ShardedDataset;
using hvd::ShardOptions;
using hvd::ShardState;

namespace {

struct World {
    int r, p;
    int rank() const { return r; }
    int size() const { return p; }
};

/// A set in which sample i is the number i.
struct Numbers {
    std::size_t count;
    std::size_t size() const { return count; }
    std::size_t operator[](std::size_t i) const { return i; }
};

using Data = ShardedDataset<const Numbers>;

/// The same set on all ranks of a world.
class Job {
public:
    Job(std::size_t count, int p, const ShardOptions& options) : set_{count} {
        for (int r = 0; r < p; ++r) ranks_.push_back(std::make_unique<Data>(set_, World{r, p}, options));
    }
    Data& operator[](std::size_t r) { return *ranks_[r]; }
    std::size_t size() const { return ranks_.size(); }

private:
    const Numbers set_;
    std::vector<std::unique_ptr<Data>> ranks_;
};

/// What the ranks got of one epoch: uses of each sample, samples per rank, sizes of batches.
struct Outcome {
    std::vector<std::size_t> uses;
    std::vector<std::size_t> share;                     // [rank]
    std::vector<std::vector<std::size_t>> batch_sizes;  // [rank][step]
    ShardState state{};

    std::size_t total() const { return std::accumulate(uses.begin(), uses.end(), std::size_t{0}); }
    std::size_t steps() const { return batch_sizes[0].size(); }
};

/// Goes through an epoch, or through its first `steps`. States must be equal on all ranks in each step.
Outcome run(Job& job, std::size_t epoch, std::size_t steps = SIZE_MAX) {
    Outcome outcome;
    outcome.uses.resize(job[0].size());
    std::vector<ShardState> states;
    for (std::size_t r = 0; r < job.size(); ++r) {
        std::size_t step = 0;
        outcome.share.push_back(0);
        outcome.batch_sizes.emplace_back();
        if (steps > 0) {
            for (auto batch : job[r].epoch(epoch)) {
                if (r == 0) states.push_back(job[r].state());
                else REQUIRE(states.at(step) == job[r].state());
                for (std::size_t sample : batch) ++outcome.uses[sample];
                outcome.share.back() += batch.size();
                outcome.batch_sizes.back().push_back(batch.size());
                if (++step == steps) break;
            }
        }
        REQUIRE(outcome.batch_sizes.back().size() == outcome.batch_sizes[0].size());
    }
    outcome.state = job[0].state();
    return outcome;
}

std::size_t ceil_div(std::size_t a, std::size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

template <class F>
std::string message_of(F&& f) {
    try {
        f();
    } catch (const hvd::UsageError& e) {
        return e.what();
    }
    return "no UsageError";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::vector<int> world_sizes = {1, 2, 3, 4, 5, 7, 8};

}  // namespace

TEST_CASE("an epoch is shared as its mode says") {
    for (int p : world_sizes) {
        const auto ranks = static_cast<std::size_t>(p);
        for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{2}, ranks - 1, ranks, ranks + 1,
                              std::size_t{17}, std::size_t{100}, std::size_t{1000}}) {
            for (std::size_t batch : {1u, 3u, 7u, 64u, 1000u}) {
                for (Last last : {Last::Pad, Last::Drop, Last::Uneven}) {
                    INFO("n ", n, " p ", p, " batch ", batch, " mode ", static_cast<int>(last));
                    Job job{n, p, {.batch_size = batch, .seed = 5, .last = last}};
                    const Outcome o = run(job, 2);
                    const std::size_t window = ranks * batch;
                    CHECK(o.steps() == (last == Last::Drop ? n / window : ceil_div(n, window)));
                    CHECK(job[0].steps_per_epoch() == o.steps());
                    CHECK(job[0].epoch(2).size() == o.steps());
                    if (o.steps() > 0) CHECK(o.state == ShardState{5, n, 2, n, 1});

                    const auto [least, most] = std::minmax_element(o.share.begin(), o.share.end());
                    if (last == Last::Uneven) {
                        CHECK(std::ranges::all_of(o.uses, [](std::size_t u) { return u == 1; }));
                        CHECK(*most - *least <= 1);
                    } else if (last == Last::Drop) {
                        CHECK(std::ranges::all_of(o.uses, [](std::size_t u) { return u <= 1; }));
                        CHECK(o.total() == o.steps() * window);
                        for (const auto& sizes : o.batch_sizes)
                            for (std::size_t size : sizes) CHECK(size == batch);
                    } else {
                        CHECK(std::ranges::all_of(o.uses, [](std::size_t u) { return u >= 1; }));
                        CHECK(*most == *least);
                        CHECK(o.total() == ceil_div(n, ranks) * ranks);
                        for (const auto& sizes : o.batch_sizes) CHECK(sizes == o.batch_sizes[0]);
                        // what is repeated is spread, and not one sample again and again
                        const std::size_t most_uses = n == 0 ? 0 : ceil_div(o.total(), n);
                        CHECK(std::ranges::all_of(o.uses, [&](std::size_t u) { return u <= most_uses; }));
                    }
                    for (const auto& sizes : o.batch_sizes)
                        for (std::size_t s = 0; s < sizes.size(); ++s)
                            CHECK((s + 1 < sizes.size() ? sizes[s] == batch : sizes[s] <= batch));
                }
            }
        }
    }
}

TEST_CASE("one permutation is cut up: the ranks' batches of a step are its next samples") {
    const Numbers set{100};
    std::vector<std::size_t> alone;
    Data single{set, World{0, 1}, {.batch_size = 12, .seed = 8, .last = Last::Uneven}};
    for (auto batch : single.epoch(4)) alone.insert(alone.end(), batch.begin(), batch.end());
    Job job{100, 3, {.batch_size = 4, .seed = 8, .last = Last::Uneven}};
    std::vector<std::size_t> together;
    for (std::size_t s = 0; s < job[0].steps_per_epoch(); ++s)
        for (std::size_t r = 0; r < 3; ++r) {
            const auto batch = job[r].epoch(4)[s];
            together.insert(together.end(), batch.begin(), batch.end());
        }
    CHECK(alone == together);
}

TEST_CASE("the order follows from seed and epoch, and shuffle = false keeps that of the set") {
    const Numbers set{50};
    const auto order = [&](std::uint64_t seed, int epoch, bool shuffle = true) {
        Data data{set, World{0, 1}, {.batch_size = 7, .seed = seed, .shuffle = shuffle}};
        std::vector<std::size_t> all;
        for (auto batch : data.epoch(epoch)) all.insert(all.end(), batch.begin(), batch.end());
        return all;
    };
    std::vector<std::size_t> plain(50);
    std::iota(plain.begin(), plain.end(), std::size_t{0});
    CHECK(order(1, 0) == order(1, 0));
    CHECK(order(1, 0) != order(1, 1));
    CHECK(order(1, 0) != order(2, 0));
    CHECK(order(1, 0) != plain);
    CHECK(order(1, 3, false) == plain);
}

TEST_CASE("any epoch may be gone through again without a restore") {
    Job job{20, 2, {.batch_size = 3, .seed = 1, .last = Last::Uneven}};
    const Outcome first = run(job, 1);
    run(job, 7);
    run(job, 0);
    CHECK(run(job, 1).uses == first.uses);
    CHECK(job[0].state() == ShardState{1, 20, 1, 20, 1});
}

TEST_CASE("epochs and their numbers of any integer type") {
    const Numbers set{10};
    Data data{set, World{0, 1}};
    CHECK(data.epoch(std::int8_t{3}).number() == 3);
    CHECK(data.epoch(3u).size() == 10);
    CHECK(data.epoch(3LL).size() == 10);
    std::vector<std::size_t> numbers;
    for (auto e : data.epochs(3)) numbers.push_back(e);
    CHECK(numbers == std::vector<std::size_t>{0, 1, 2});
    CHECK(data.epochs(0).empty());
    CHECK(contains(message_of([&] { data.epoch(-1); }), "negative"));
    CHECK(contains(message_of([&] { static_cast<void>(data.epochs(-1)); }), "negative"));
}

TEST_CASE("weights split every step in proportion, still exactly once") {
    for (const std::vector<double>& weights : {std::vector<double>{1, 1, 1, 1},
                                               {1, 2, 3, 4},
                                               {0.1, 0.1, 0.1, 0.7},
                                               {0, 0, 1, 0},
                                               {1e308, 1e308, 1e308, 1e308},
                                               {5e-324, 5e-324, 0, 5e-324},
                                               {1, 1e-9, 1e-9, 1e-9}}) {
        const double most = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        for (double w : weights) sum += w / most;
        for (std::size_t n : {0u, 1u, 3u, 40u, 100u, 103u, 1000u}) {
            for (std::size_t batch : {1u, 3u, 10u}) {
                for (Last last : {Last::Pad, Last::Drop, Last::Uneven}) {
                    Job job{n, 4, {.batch_size = batch, .seed = 5, .last = last, .weights = weights}};
                    const Outcome o = run(job, 0);
                    INFO("n ", n, " batch ", batch, " mode ", static_cast<int>(last));
                    if (last == Last::Uneven) CHECK(std::ranges::all_of(o.uses, [](std::size_t u) { return u == 1; }));
                    if (last == Last::Pad) CHECK(std::ranges::all_of(o.uses, [](std::size_t u) { return u >= 1; }));
                    if (last == Last::Pad) CHECK(o.total() == ceil_div(n, 4) * 4);
                    if (last == Last::Drop) CHECK(o.total() == n / (4 * batch) * 4 * batch);
                    for (std::size_t r = 0; r < 4; ++r)
                        if (weights[r] == 0) CHECK(o.share[r] == 0);
                    for (std::size_t s = 0; s + 1 < o.steps(); ++s)
                        for (std::size_t r = 0; r < 4; ++r) {
                            const double quota = static_cast<double>(4 * batch) * (weights[r] / most / sum);
                            CHECK(std::abs(static_cast<double>(o.batch_sizes[r][s]) - quota) < 1);
                        }
                }
            }
        }
    }
    Job job{100, 4, {.batch_size = 10, .weights = {1, 2, 3, 4}}};
    for (std::size_t r = 0; r < 4; ++r) CHECK(job[r].epoch(0)[0].size() == 4 * (r + 1));
}

TEST_CASE("the largest remainder gets the sample that is left") {
    using hvd::detail::Share;
    using hvd::detail::weighted_share;
    const std::vector<double> weights = {1, 4, 2};  // of 10: 1.43, 5.71, 2.86 -> 1, 6, 3
    CHECK(weighted_share(10, 0, weights) == Share{0, 1});
    CHECK(weighted_share(10, 1, weights) == Share{1, 6});
    CHECK(weighted_share(10, 2, weights) == Share{7, 3});
    CHECK(weighted_share(4, 1, {1, 1, 1}) == Share{2, 1});  // equal remainders: the lowest rank
    for (std::size_t p = 1; p <= 16; ++p)                   // equal weights are equal shares
        for (std::size_t n = 0; n <= 50; ++n)
            for (std::size_t r = 0; r < p; ++r)
                CHECK(weighted_share(n, r, std::vector<double>(p, 0.3)).count ==
                      hvd::detail::even_share(n, r, p).count);
}

TEST_CASE("unusable options") {
    const Numbers set{10};
    const auto why = [&](const ShardOptions& options, World world = {1, 3}) {
        return message_of([&] { Data{set, world, options}; });
    };
    CHECK(contains(why({.batch_size = 0}), "hvd: ShardedDataset on rank 1 of 3: batch_size is 0"));
    CHECK(contains(why({.weights = {1, 2}}), "2 weights for 3 workers"));
    CHECK(contains(why({.weights = {1, 2, 3, 4}}), "4 weights for 3 workers"));
    CHECK(contains(why({.weights = {1, -2, 3}}), "rank 1"));
    CHECK(contains(why({.weights = {1, 2, std::nan("")}}), "rank 2"));
    CHECK(contains(why({.weights = {std::numeric_limits<double>::infinity(), 2, 2}}), "rank 0"));
    CHECK(contains(why({.weights = {0, 0, 0}}), "all weights are zero"));
    CHECK(contains(why({}, {3, 3}), "no such rank"));
    CHECK(why({.weights = {0, 0, std::numeric_limits<double>::max()}}) == "no UsageError");
    CHECK(why({}) == "no UsageError");
}

TEST_CASE("batches of any size") {
    Job job{10, 3, {.batch_size = SIZE_MAX, .last = Last::Uneven}};
    CHECK(run(job, 0).share == std::vector<std::size_t>{4, 3, 3});
    Job padded{10, 3, {.batch_size = SIZE_MAX / 2}};
    CHECK(run(padded, 0).share == std::vector<std::size_t>{4, 4, 4});
    Job dropped{10, 3, {.batch_size = SIZE_MAX, .last = Last::Drop}};
    CHECK(run(dropped, 0).steps() == 0);
}

TEST_CASE("restore: earlier epochs are empty, its own gives the rest, later ones are whole") {
    Job before{100, 4, {.batch_size = 3, .seed = 2, .last = Last::Uneven}};
    const Outcome start = run(before, 3, 5);
    CHECK(start.state == ShardState{2, 100, 3, 60, 1});

    Job after{100, 3, {.batch_size = 4, .seed = 2, .last = Last::Uneven}};
    for (std::size_t r = 0; r < 3; ++r) after[r].restore(start.state);
    CHECK(after[0].state() == start.state);
    for (int turn = 0; turn < 2; ++turn) {  // also when gone through again
        for (std::size_t e = 0; e < 3; ++e) CHECK(run(after, e).steps() == 0);
        const Outcome rest = run(after, 3);
        for (std::size_t i = 0; i < 100; ++i) CHECK(start.uses[i] + rest.uses[i] == 1);
        CHECK(run(after, 4).total() == 100);
    }
    std::vector<std::size_t> numbers;
    for (auto e : after[0].epochs(6)) numbers.push_back(e);
    CHECK(numbers == std::vector<std::size_t>{3, 4, 5});
    CHECK(after[0].epochs(2).empty());
    CHECK(after[0].first_epoch() == 3);
}

TEST_CASE("the world changes again and again, at every position: 4, 3, 5, ... workers") {
    const std::vector<std::vector<int>> chains = {{4, 3, 5}, {5, 1, 8, 2}, {1, 7, 3}};
    for (Last last : {Last::Uneven, Last::Pad, Last::Drop})
        for (std::size_t n : {1u, 17u, 61u})
            for (std::size_t batch : {1u, 2u, 5u})
                for (const auto& chain : chains)
                    for (std::size_t first_steps = 0; first_steps < 20; ++first_steps)
                        for (std::size_t later_steps = 0; later_steps < 5; ++later_steps) {
                            ShardState state{9, n, 1, 0, 1};
                            std::vector<std::size_t> uses(n);
                            std::size_t used = 0, repeats_allowed = 0;
                            for (std::size_t c = 0; c < chain.size(); ++c) {
                                Job job{n, chain[c], {.batch_size = batch, .seed = 9, .last = last}};
                                for (std::size_t r = 0; r < job.size(); ++r) job[r].restore(state);
                                const bool is_end = c + 1 == chain.size();
                                const Outcome o = run(job, 1, is_end ? SIZE_MAX : c == 0 ? first_steps : later_steps);
                                for (std::size_t i = 0; i < n; ++i) uses[i] += o.uses[i];
                                used += o.total();
                                repeats_allowed += job.size() - 1;
                                state = o.state;
                                REQUIRE(job[0].state().position <= n);
                            }
                            const auto [least, most] = std::minmax_element(uses.begin(), uses.end());
                            if (last == Last::Uneven) REQUIRE((*least == 1 && *most == 1));
                            if (last == Last::Drop) REQUIRE(*most <= 1);
                            if (last == Last::Pad) REQUIRE(*least >= 1);
                            if (last == Last::Pad) REQUIRE(used - n <= repeats_allowed);
                        }
}

TEST_CASE("a state at the very end of an epoch: nothing is left of it, and epochs() begins with it") {
    for (Last last : {Last::Uneven, Last::Pad, Last::Drop}) {
        Job before{23, 4, {.batch_size = 3, .last = last}};
        const Outcome whole = run(before, 1);
        Job after{23, 1, {.batch_size = 1, .last = last}};
        after[0].restore(whole.state);
        CHECK(run(after, 1).steps() == 0);
        CHECK(*after[0].epochs(9).begin() == 1);
        CHECK(run(after, 2).total() == 23);
    }
}

TEST_CASE("looking at a batch does not move the position, use() does") {
    const Numbers set{20};
    Data data{set, World{0, 2}, {.batch_size = 5}};
    const auto epoch = data.epoch(2);
    CHECK(epoch[1].size() == 5);
    CHECK(data.state() == ShardState{0, 20, 0, 0, 1});
    epoch.use(0);
    CHECK(data.state() == ShardState{0, 20, 2, 10, 1});
}

TEST_CASE("a state of another set, seed or order is refused, and nothing changes") {
    const Numbers set{10};
    Data data{set, World{0, 2}, {.seed = 4}};
    const ShardState good{4, 10, 5, 6, 1};
    CHECK(contains(message_of([&] { data.restore({4, 11, 0, 0, 1}); }), "a set of 11 samples and this one has 10"));
    CHECK(contains(message_of([&] { data.restore({5, 10, 0, 0, 1}); }), "seed 5"));
    CHECK(contains(message_of([&] { data.restore({4, 10, 0, 0, 0}); }), "shuffle"));
    CHECK(contains(message_of([&] { data.restore({4, 10, 0, 11, 1}); }), "position 11"));
    CHECK(data.state() == ShardState{4, 10, 0, 0, 1});
    CHECK(data.epoch(0).size() == 5);
    data.restore(good);
    CHECK(data.state() == good);
    static_assert(std::is_trivially_copyable_v<ShardState>);
    static_assert(std::has_unique_object_representations_v<ShardState>);
}

TEST_CASE("sets are referred to or owned, and samples come as the set gives them") {
    const World world{0, 1};
    std::vector<int> counts(10);
    ShardedDataset referring{counts, world, {.batch_size = 4}};
    for (auto batch : referring.epoch(0))
        for (int& c : batch) ++c;
    CHECK(counts == std::vector<int>(10, 1));
    CHECK(&referring.set() == &counts);

    const std::vector<std::string> words = {"a", "b", "c"};
    ShardedDataset constant{words, world, {.batch_size = 3, .shuffle = false}};
    auto batch = *constant.epoch(0).begin();
    static_assert(std::is_same_v<decltype(batch[0]), const std::string&>);
    CHECK(&batch[1] == &words[1]);
    CHECK(batch.begin()->size() == 1);

    struct MoveOnly {
        std::unique_ptr<int> value = std::make_unique<int>(6);
        std::size_t size() const { return 3; }
        int operator[](std::size_t i) const { return *value + static_cast<int>(i); }
    };
    ShardedDataset owning{MoveOnly{}, world, {.shuffle = false}};
    int sum = 0;
    for (const auto& b : owning.epoch(0)) sum += b[0];
    CHECK(sum == 21);

    ShardedDataset<std::vector<int>> named{counts, world};
    CHECK(named.size() == 10);
    ShardedDataset<std::vector<int>> named_owner{std::vector<int>(4), world, {}};
    CHECK(named_owner.size() == 4);

    std::vector<bool> bits = {true, false, true};
    ShardedDataset proxies{bits, world, {.batch_size = 3}};
    for (auto b : proxies.epoch(0)) CHECK(std::count(b.begin(), b.end(), true) == 2);

    ShardedDataset view{std::span{counts}, world, {.batch_size = 10}};
    CHECK(view.epoch(0)[0].size() == 10);
}

TEST_CASE("an abstract set, whose members are not const") {
    struct Base {
        virtual ~Base() = default;
        virtual std::size_t size() = 0;
        virtual double operator[](std::size_t i) = 0;
    };
    struct Halves : Base {
        std::size_t size() override { return 4; }
        double operator[](std::size_t i) override { return static_cast<double>(i) / 2; }
    };
    Halves halves;
    Base& base = halves;
    ShardedDataset data{base, World{1, 2}, {.batch_size = 2, .shuffle = false}};
    const auto batch = data.epoch(0)[0];
    CHECK(batch[0] == 1.0);
    CHECK(batch[1] == 1.5);
}

TEST_CASE("a batch outlives its loop, and its iterators are random access") {
    const std::vector<int> set = {0, 10, 20, 30, 40, 50, 60};
    ShardedDataset data{set, World{0, 1}, {.batch_size = 3, .last = Last::Uneven}};
    using B = hvd::Batch<const std::vector<int>>;
    static_assert(std::random_access_iterator<B::iterator> &&
                  std::input_iterator<hvd::Epoch<const std::vector<int>>::iterator>);
    static_assert(std::ranges::random_access_range<B> && std::ranges::sized_range<B>);
    std::vector<B> kept;
    for (auto batch : data.epoch(0)) kept.push_back(std::move(batch));
    REQUIRE(kept.size() == 3);
    std::vector<int> all;
    for (const B& b : kept) {
        CHECK(b.end() - b.begin() == static_cast<std::ptrdiff_t>(b.size()));
        CHECK(b.empty() == (b.size() == 0));
        for (std::size_t i = 0; i < b.size(); ++i) {
            CHECK(b[i] == static_cast<int>(b.indices()[i]) * 10);
            CHECK(b.begin()[static_cast<std::ptrdiff_t>(i)] == b[i]);
        }
        all.insert(all.end(), b.begin(), b.end());
    }
    std::sort(all.begin(), all.end());
    CHECK(all == set);
    std::size_t sum = 0;
    for (std::size_t i : data.epoch(0)[0].indices()) sum += i;  // of a temporary batch
    CHECK(sum == std::accumulate(kept[0].indices().begin(), kept[0].indices().end(), std::size_t{0}));
}

namespace my {

class Tensor {
public:
    Tensor(std::size_t rows, std::size_t cols) : shape{rows, cols}, memory(rows * cols) {
        std::iota(memory.begin(), memory.end(), 0.0f);
    }
    std::vector<std::size_t> shape;
    std::vector<float> memory;
};
class FlatTensor : public Tensor {  // operator[] counts elements
public:
    using Tensor::Tensor;
    std::size_t size() const { return memory.size(); }
    float& operator[](std::size_t i) { return memory[i]; }
    const float& operator[](std::size_t i) const { return memory[i]; }
};

}  // namespace my

template <class T>
    requires std::is_base_of_v<my::Tensor, T>
struct hvd::tensor_traits<T> {
    using value_type = float;
    static float* data(T& t) { return t.memory.data(); }
    static std::size_t size(const T& t) { return t.memory.size(); }
    static std::vector<std::size_t> shape(const T& t) { return t.shape; }
};

TEST_CASE_TEMPLATE("a tensor as a set: sample i is the span of row i", T, my::Tensor, const my::Tensor, my::FlatTensor,
                   const my::FlatTensor) {
    T tensor{5, 3};
    ShardedDataset data{tensor, World{0, 1}, {.batch_size = 2, .last = Last::Uneven}};
    using Element = std::conditional_t<std::is_const_v<T>, const float, float>;
    CHECK(data.size() == 5);
    std::size_t rows = 0;
    for (auto batch : data.epoch(0))
        for (std::size_t i = 0; i < batch.size(); ++i, ++rows) {
            const std::span<Element> row = batch[i];
            REQUIRE(row.size() == 3);
            CHECK(row[2] == static_cast<float>(batch.indices()[i] * 3 + 2));
        }
    CHECK(rows == 5);
    ShardedDataset owning{my::Tensor{2, 4}, World{0, 1}};
    CHECK(owning.epoch(0)[0][0].size() == 4);
}
