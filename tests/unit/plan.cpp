// The engine's pure logic: buckets, the plan's memory, and what follows from the ranks' reports.
#include <doctest/doctest.h>

#include <hvd/engine/plan.hpp>
#include <hvd/engine/report.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace hvd::detail;

namespace {

Agreed tensor(const std::string& name, std::uint64_t bytes, std::uint64_t key = 1) { return {name, 7, key, bytes, 0}; }

std::vector<std::string> names(const Bucket& bucket) {
    std::vector<std::string> all;
    for (const Agreed& m : bucket.members) all.push_back(m.name);
    return all;
}

Metadata metadata(const std::string& name, std::uint64_t signature = 7) {
    Metadata m;
    m.name = name;
    m.signature = signature;
    m.text = "form " + std::to_string(signature);
    return m;
}

// Carries a step of these buckets out by talking, then says what is expected.
void talk(Planner& planner, const std::vector<Bucket>& buckets, bool alike = true) { planner.talked(buckets, alike); }

}  // namespace

TEST_CASE("buckets fill up to the threshold, the first one less") {
    std::vector<Agreed> operations;
    for (int i = 0; i < 10; ++i) operations.push_back(tensor(std::to_string(i), 40));
    const auto buckets = make_buckets(operations, 100, 50);
    REQUIRE(buckets.size() == 6);
    CHECK(names(buckets[0]) == std::vector<std::string>{"0"});
    CHECK(names(buckets[1]) == std::vector<std::string>{"1", "2"});
    CHECK(buckets[5].bytes == 40);
    std::size_t count = 0;
    for (const Bucket& b : buckets) count += b.members.size();
    CHECK(count == 10);
}

TEST_CASE("a bucket that is long enough starts, whatever the threshold") {
    constexpr std::uint64_t mib = 1 << 20;
    std::vector<Agreed> operations;
    for (int i = 0; i < 20; ++i) operations.push_back(tensor(std::to_string(i), mib));
    const auto buckets = make_buckets(operations, 64 * mib, mib);
    REQUIRE(buckets.size() == 6);
    CHECK(buckets[0].bytes == mib);
    for (std::size_t i = 1; i < 5; ++i) CHECK(buckets[i].bytes == 4 * mib);
    CHECK(buckets[5].bytes == 3 * mib);
}

TEST_CASE("threshold 0, long tensors and unlike operations travel apart") {
    CHECK(make_buckets({tensor("a", 4), tensor("b", 4)}, 0, 0).size() == 2);
    const auto with_long = make_buckets({tensor("a", 4), tensor("long", 100), tensor("b", 4)}, 100, 50);
    REQUIRE(with_long.size() == 2);
    CHECK(names(with_long[0]) == std::vector<std::string>{"long"});
    CHECK(names(with_long[1]) == std::vector<std::string>{"a", "b"});
    const auto unlike =
        make_buckets({tensor("a", 4, 1), tensor("b", 4, 3), tensor("c", 4, 1), tensor("alone", 4, 0)}, 100, 50);
    CHECK(unlike.size() == 3);
}

TEST_CASE("tensors of a bound buffer lie in its order") {
    std::vector<Agreed> operations{tensor("a", 4), tensor("b", 4), tensor("c", 4)};
    operations[0].place = 9;
    operations[1].place = 1;
    operations[2].place = 5;
    CHECK(names(make_buckets(operations, 100, 100)[0]) == std::vector<std::string>{"b", "c", "a"});
    operations[1].place = 0;  // one that is not bound leaves the order alone
    CHECK(names(make_buckets(operations, 100, 100)[0]) == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("a step is foreseen from the one before") {
    Planner planner;
    CHECK(planner.next() == nullptr);
    const Bucket first{{tensor("a", 4), tensor("b", 4)}, 8}, second{{tensor("c", 4)}, 4};
    talk(planner, {first, second});
    CHECK(planner.made() == 1);
    for (int step = 0; step < 3; ++step) {
        CHECK(names(*planner.next()) == names(first));
        planner.went_as_planned();
        CHECK(names(*planner.next()) == names(second));
        planner.went_as_planned();
    }
    CHECK(planner.reused() == 2);  // the third is counted when the fourth begins
    planner.count_step();
    CHECK(planner.reused() == 3);
    planner.count_step();
    CHECK(planner.reused() == 3);
}

TEST_CASE("operations that are waited for one by one become a plan of one each") {
    Planner planner;
    talk(planner, {{{tensor("a", 4)}, 4}});
    talk(planner, {{{tensor("b", 4)}, 4}});
    CHECK(planner.buckets().size() == 2);
    CHECK(names(*planner.next()) == std::vector<std::string>{"a"});
}

TEST_CASE("a step that differs on one rank leaves the plan; the same twice replaces it") {
    Planner planner;
    const Bucket whole{{tensor("a", 4), tensor("b", 4)}, 8}, part{{tensor("a", 4)}, 4}, rest{{tensor("b", 4)}, 4};
    talk(planner, {whole});
    planner.went_as_planned();
    talk(planner, {part}, false);
    talk(planner, {rest}, false);
    CHECK(planner.buckets().size() == 1);
    CHECK(names(*planner.next()) == names(whole));
    talk(planner, {part}, false);
    talk(planner, {rest}, false);
    talk(planner, {part}, false);  // the second such step ends here
    CHECK(planner.buckets().size() == 2);
}

TEST_CASE("what all have is run, what differs fails with one sentence, what is missing waits") {
    std::vector<RankReport> reports(3);
    for (auto& r : reports) r.pending = {metadata("everywhere"), metadata("differs"), metadata("missing")};
    reports[1].pending[1] = metadata("differs", 8);
    reports[2].pending.pop_back();
    const Decision d = decide(reports);
    REQUIRE(d.run.size() == 1);
    CHECK(d.run[0].name == "everywhere");
    REQUIRE(d.failures.size() == 1);
    CHECK(d.failures[0].second.find("ranks 0 and 2 submit form 7, rank 1 submits form 8") != std::string::npos);
    CHECK(!d.all_alike);
    CHECK(d.participants == 3);
}

TEST_CASE("joined ranks do not hold up the others, and the last to join is known") {
    std::vector<RankReport> reports(3);
    reports[0].joined = 1;
    reports[0].joined_at = 5;
    reports[1].pending = reports[2].pending = {metadata("x")};
    Decision d = decide(reports);
    CHECK(d.run.size() == 1);
    CHECK(d.participants == 2);
    CHECK(!d.all_joined);
    reports[1].pending.clear();
    reports[2].pending.clear();
    reports[1].joined = reports[2].joined = 1;
    reports[1].joined_at = 9;
    reports[2].joined_at = 7;
    d = decide(reports);
    CHECK(d.all_joined);
    CHECK(d.last_joined == 1);
    reports[2].joined_at = 9;
    CHECK(decide(reports).last_joined == 2);
}
