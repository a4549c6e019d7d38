// The order of an epoch: a permutation, the same everywhere, and without visible bias.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <hvd/data/permutation.hpp>

using hvd::Permutation;

namespace {

std::vector<std::size_t> order(std::size_t count, std::uint64_t seed, std::uint64_t epoch) {
    const Permutation permutation{count, seed, epoch};
    std::vector<std::size_t> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(permutation[i]);
    return values;
}

/// How many standard deviations chi-square lies above what is expected of equal frequencies.
double excess(const std::vector<double>& counts, double expected, double freedom) {
    double chi_square = 0;
    for (double c : counts) chi_square += (c - expected) * (c - expected) / expected;
    return (chi_square - freedom) / std::sqrt(2 * freedom);
}

}  // namespace

TEST_CASE("every count gives a permutation") {
    for (std::size_t count = 0; count <= 1100; ++count) {  // passes 1024, where the number of rounds changes
        std::vector<bool> seen(count);
        for (std::size_t value : order(count, 3, count)) {
            REQUIRE(value < count);
            REQUIRE_FALSE(seen[value]);
            seen[value] = true;
        }
    }
    for (std::size_t count : {65535u, 65536u, 65537u, 100000u}) {
        std::vector<bool> seen(count);
        for (std::size_t value : order(count, 9, 1)) {
            REQUIRE(value < count);
            REQUIRE_FALSE(seen[value]);
            seen[value] = true;
        }
    }
}

TEST_CASE("huge counts stay in range and do not repeat") {
    for (std::size_t count : {(std::size_t{1} << 32) - 1, (std::size_t{1} << 32) + 1, (std::size_t{1} << 40) + 12345,
                              ~std::size_t{0} >> 1, ~std::size_t{0}}) {
        const Permutation permutation{count, 1, 2};
        std::set<std::size_t> seen;
        bool is_beyond_half = false;
        for (std::size_t i = 0; i < 1000; ++i) {
            const std::size_t value = permutation[i * (count / 1000)];
            REQUIRE(value < count);
            REQUIRE(seen.insert(value).second);
            is_beyond_half = is_beyond_half || value > count / 2;
        }
        CHECK(is_beyond_half);
    }
}

TEST_CASE("the order is part of the contract: it does not depend on compiler or machine") {
    constexpr Permutation permutation{10, 1, 0};
    constexpr std::size_t expected[] = {0, 9, 3, 8, 7, 4, 5, 6, 1, 2};
    for (std::size_t i = 0; i < 10; ++i) CHECK(permutation[i] == expected[i]);
}

TEST_CASE("seed and epoch both change the order, and do not stand for each other") {
    CHECK(order(100, 1, 0) == order(100, 1, 0));
    std::set<std::vector<std::size_t>> orders;
    for (std::uint64_t seed = 0; seed < 30; ++seed)
        for (std::uint64_t epoch = 0; epoch < 30; ++epoch) CHECK(orders.insert(order(100, seed, epoch)).second);
}

TEST_CASE("all orders of a few samples come equally often") {
    for (std::size_t count = 2; count <= 6; ++count) {
        std::size_t factorial = 1;
        for (std::size_t i = 2; i <= count; ++i) factorial *= i;
        constexpr std::size_t each = 200;
        std::vector<double> counts(factorial);
        for (std::size_t s = 0; s < factorial * each; ++s) {
            const auto values = order(count, s / 7, s % 7);
            std::size_t code = 0;  // the Lehmer code
            for (std::size_t i = 0; i < count; ++i) {
                std::size_t smaller_behind = 0;
                for (std::size_t j = i + 1; j < count; ++j) smaller_behind += values[j] < values[i];
                code = code * (count - i) + smaller_behind;
            }
            ++counts[code];
        }
        INFO("count ", count);
        CHECK(std::abs(excess(counts, each, static_cast<double>(factorial) - 1)) < 5);
    }
}

TEST_CASE("places, neighbours, pairs and parity are without bias") {
    constexpr std::size_t draws = 10000;
    for (std::size_t n : {9u, 16u, 31u, 100u, 1030u}) {
        INFO("count ", n);
        const std::size_t bins = n < 100 ? n : 10;
        const auto bin = [&](std::size_t value) { return value * bins / n; };
        std::vector<double> in_bin(bins), expected_in_bin(bins), pairs(bins * bins), expected_pairs(bins * bins);
        for (std::size_t v = 0; v < n; ++v)
            expected_in_bin[bin(v)] += static_cast<double>(draws) / static_cast<double>(n);
        for (std::size_t v = 0; v < n; ++v)
            for (std::size_t w = 0; w < n; ++w)
                if (v != w)
                    expected_pairs[bin(v) * bins + bin(w)] +=
                        static_cast<double>(draws) / static_cast<double>(n * (n - 1));
        double worst = 0;
        for (std::size_t place : {std::size_t{0}, std::size_t{1}, n / 2, n - 2}) {
            std::fill(in_bin.begin(), in_bin.end(), 0.0);
            std::fill(pairs.begin(), pairs.end(), 0.0);
            for (std::size_t e = 0; e < draws; ++e) {
                const Permutation permutation{n, 4, e};
                const std::size_t a = permutation[place], b = permutation[place + 1];
                ++in_bin[bin(a)];
                ++pairs[bin(a) * bins + bin(b)];
            }
            double single = 0, pair = 0, pair_cells = 0;
            for (std::size_t i = 0; i < bins; ++i)
                single += std::pow(in_bin[i] - expected_in_bin[i], 2) / expected_in_bin[i];
            for (std::size_t i = 0; i < bins * bins; ++i) {
                if (expected_pairs[i] == 0) continue;
                ++pair_cells;
                pair += std::pow(pairs[i] - expected_pairs[i], 2) / expected_pairs[i];
            }
            const double freedom = static_cast<double>(bins) - 1;
            worst = std::max(worst, std::abs(single - freedom) / std::sqrt(2 * freedom));
            worst = std::max(worst, std::abs(pair - pair_cells + 1) / std::sqrt(2 * (pair_cells - 1)));
        }
        CHECK(worst < 5);
    }

    for (std::size_t n : {9u, 10u, 25u, 40u}) {  // an even number of exchanges in half of the orders
        double odd = 0;
        for (std::uint64_t e = 0; e < 4000; ++e) {
            const auto values = order(n, 2, e);
            std::size_t inversions = 0;
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t j = i + 1; j < n; ++j) inversions += values[i] > values[j];
            odd += static_cast<double>(inversions % 2);
        }
        INFO("count ", n);
        CHECK(std::abs(odd - 2000) < 5 * std::sqrt(1000.0));
    }
}

TEST_CASE("each stretch of a large order is a fair sample") {
    constexpr std::size_t count = 1000003, stretch = 1000, bins = 100;
    const Permutation permutation{count, 5, 6};
    double chi_square = 0;
    for (std::size_t s = 0; s < 300; ++s) {
        std::vector<double> counts(bins);
        for (std::size_t i = 0; i < stretch; ++i) ++counts[permutation[s * stretch + i] * bins / count];
        for (double c : counts) chi_square += (c - 10) * (c - 10) / 10;
    }
    const double freedom = 300 * (bins - 1);
    CHECK(std::abs(chi_square - freedom) < 5 * std::sqrt(2 * freedom));
}
