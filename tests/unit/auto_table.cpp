// The table of Auto: its text, what is refused, and how it follows from times.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include <hvd/hvd.hpp>
#include <hvd/testing/expect.hpp>

using hvd::testing::expect_throws;

namespace {

constexpr auto tree = static_cast<std::size_t>(hvd::detail::Way::Tree);
constexpr auto ring = static_cast<std::size_t>(hvd::detail::Way::Ring);
constexpr auto direct = static_cast<std::size_t>(hvd::detail::Way::Direct);

}  // namespace

TEST_CASE("a table survives being written and read") {
    const hvd::AutoTable table{{{0, "tree"}, {4096, "halving_doubling"}, {std::size_t{1} << 40, "ring"}}};
    CHECK(hvd::AutoTable::parse(table.text(), "here").text() == table.text());
    CHECK(hvd::AutoTable::parse("0 tree\r\n7 ring\r\n", "here").text() == "0 tree\n7 ring\n");
    CHECK(expect_throws<hvd::UsageError>([] { hvd::AutoTable::load("/"); }).find("cannot be read") !=
          std::string::npos);
    CHECK(hvd::AutoTable::parse("# a remark\n\n0 direct", "here").text() == "0 direct\n");
    const std::string path = "auto_table_test.txt";
    table.save(path);
    CHECK(hvd::AutoTable::load(path).text() == table.text());
    std::remove(path.c_str());
}

TEST_CASE("what is no table is refused, with the place and what is wrong") {
    const std::pair<const char*, const char*> wrong[] = {
        {"", "no rows"},
        {"1 tree", "begin at 0"},
        {"0 tree\n5 ring\n5 direct", "ascend"},
        {"0 trees", "'trees'"},
        {"nothing", "a number of bytes"},
        {"-1 tree", "a number of bytes"},
        {"0\ttree", "a number"},
        {"0 tree ", "'tree '"},
        {"+0 tree", "a number"},
        {" 0 tree", "a number"},
        {"99999999999999999999999999 tree", "a number"},
        {"0 \x01\x7f", "names '"},
    };
    for (const auto& row : wrong) {
        const char *text = row.first, *words = row.second;
        CAPTURE(text);
        const std::string error = expect_throws<hvd::UsageError>([&] { hvd::AutoTable::parse(text, "its place"); });
        CHECK(error.find(words) != std::string::npos);
        CHECK(error.find("its place") != std::string::npos);
    }
    std::string many;
    for (int i = 0; i < 17; ++i) many += std::to_string(i) + " ring\n";
    CHECK(expect_throws<hvd::UsageError>([&] { hvd::AutoTable::parse(many, "x"); }).find("more than 16") !=
          std::string::npos);
    CHECK(expect_throws<hvd::UsageError>([] { hvd::AutoTable::load("/no/such/file"); }).find("/no/such/file") !=
          std::string::npos);
    const std::string path = "auto_table_too_long.txt";
    hvd::AutoTable{{{0, "ring"}}}.save(path);
    std::FILE* file = std::fopen(path.c_str(), "a");
    std::fprintf(file, "#%5000s\n4096 direct\n", "");
    std::fclose(file);
    CHECK(expect_throws<hvd::UsageError>([&] { hvd::AutoTable::load(path); }).find("longer") != std::string::npos);
    std::remove(path.c_str());
    CHECK(expect_throws<hvd::UsageError>([] {
              hvd::AutoTable{{{0, "ring"}}}.save("/no/such/file");
          }).find("written") != std::string::npos);
}

TEST_CASE("rows are looked up by length") {
    const auto rows = hvd::detail::rows_of_table({{{0, "tree"}, {100, "ring"}, {200, "direct"}}}, "here");
    using hvd::detail::Way;
    CHECK(rows.at(0) == Way::Tree);
    CHECK(rows.at(99) == Way::Tree);
    CHECK(rows.at(100) == Way::Ring);
    CHECK(rows.at(199) == Way::Ring);
    CHECK(rows.at(~std::size_t{0}) == Way::Direct);
}

TEST_CASE("a table follows from times") {
    hvd::detail::AutoTimes times;
    CHECK(hvd::detail::table_from(times).rows.empty());
    for (std::size_t i = 0; i < times.seconds.size(); ++i) {
        times.seconds[i][tree] = 1 + 3 * static_cast<double>(i);
        times.seconds[i][ring] = 3 + static_cast<double>(i);
    }
    // Tree is ahead at the first length, level at the second (a tie keeps it), and behind from the third.
    hvd::AutoTable table = hvd::detail::table_from(times);
    REQUIRE(table.rows.size() == 2);
    CHECK(table.rows[0].algorithm == "tree");
    CHECK(table.rows[1].algorithm == "ring");
    CHECK(table.rows[1].from > hvd::detail::auto_trials[1].bytes);
    CHECK(table.rows[1].from <= hvd::detail::auto_trials[2].bytes);
    // Direct may be a little slower, and not much.
    for (std::size_t i = 0; i < times.seconds.size(); ++i)
        times.seconds[i][direct] = 1.5 * std::min(times.seconds[i][tree], times.seconds[i][ring]);
    table = hvd::detail::table_from(times);
    CHECK(table.text() == "0 direct\n");
    times.seconds.back()[direct] = 10 * times.seconds.back()[ring];
    table = hvd::detail::table_from(times);
    REQUIRE(table.rows.size() == 2);
    CHECK(table.rows[1].algorithm == "ring");
}

TEST_CASE("rows begin between the lengths that were measured, whatever the times") {
    const auto check_rows = [](const hvd::detail::AutoTimes& times) {
        const hvd::AutoTable table = hvd::detail::table_from(times);
        REQUIRE_FALSE(table.rows.empty());
        CHECK(table.rows[0].from == 0);
        for (std::size_t i = 1; i < table.rows.size(); ++i) {
            CHECK(table.rows[i].from > table.rows[i - 1].from);
            CHECK(table.rows[i].from <= hvd::detail::auto_trials.back().bytes);
        }
    };
    // Direct comes close, and is taken, where it is still behind: the lines do not cross there.
    hvd::detail::AutoTimes times;
    for (auto& now : times.seconds) now[tree] = 1, now[direct] = 1.5;
    times.seconds[0][direct] = 2.5;
    check_rows(times);
    std::mt19937 random{7};
    for (int turn = 0; turn < 20000; ++turn) {
        for (auto& now : times.seconds)
            for (double& seconds : now) seconds = static_cast<double>(1 + random() % 8) / 4;
        check_rows(times);
    }
}

TEST_CASE("before Direct's time is taken all of its slots have been touched") {
    constexpr hvd::Direct policy{};
    constexpr std::size_t all = policy.slots * 4, slot_bytes = policy.slot_bytes / 4;  // as two ranks cut them
    for (const auto& trial : hvd::detail::auto_trials) {
        if (trial.bytes < std::size_t{64} << 10) continue;  // which touch one page of a slot
        CAPTURE(trial.bytes);
        CHECK(static_cast<std::size_t>(trial.warm_up) * std::max<std::size_t>(trial.bytes / slot_bytes, 1) >= all);
    }
}

TEST_CASE("what is far behind is not tried at greater lengths; Direct must be so where memory counts") {
    using hvd::detail::has_lost;
    using hvd::detail::Way;
    CHECK(has_lost(Way::Tree, 256, 4e-6, 1e-6));
    CHECK_FALSE(has_lost(Way::Tree, 256, 2e-6, 1e-6));
    CHECK_FALSE(has_lost(Way::Direct, 256, 8e-6, 1e-6));
    CHECK_FALSE(has_lost(Way::Direct, 4096, 8e-6, 1e-6));
    CHECK(has_lost(Way::Direct, 65536, 8e-5, 1e-5));
}

TEST_CASE("lengths that there was no time for go by what is usual") {
    hvd::detail::AutoTimes times;
    times.seconds[0][tree] = 1;
    CHECK(hvd::detail::table_from(times).text() == "0 tree\n8192 halving_doubling\n524288 ring\n");
    CHECK(hvd::detail::table_from(times, hvd::detail::Way::Hierarchical).text() ==
          "0 tree\n8192 halving_doubling\n524288 hierarchical\n");
    times.seconds[0][ring] = 0.1;
    CHECK(hvd::detail::table_from(times).text() == "0 ring\n");
    times.seconds[0][direct] = 0.1;
    CHECK(hvd::detail::table_from(times).text() == "0 direct\n");
}
