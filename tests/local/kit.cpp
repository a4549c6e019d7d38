// The public test kit finds what is wrong with an algorithm or a transport.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>
#include <hvd/testing/transport_suite.hpp>

namespace {

enum class Fault { None, LastElement, OneRankRoundsOtherwise, OtherBitsEachTime, OnlyShort };

// Ring with a fault.
struct Faulty {
    static constexpr std::string_view name = "faulty";
    Fault fault = Fault::None;

    struct State {
        hvd::detail::ScratchState scratch{};
        int runs = 0;
    };
    template <hvd::Transport T>
    State prepare(T&) const {
        return {};
    }
    template <hvd::Transport T, hvd::Scalar E, class Op>
    void run(hvd::Channel<T> channel, State& state, std::span<E> data, const Op& op) const {
        if (fault == Fault::OnlyShort && data.size() > 1000) return;
        const E before = data.empty() ? E{} : data.back();
        hvd::Ring{}.run(channel, state.scratch, data, op);
        ++state.runs;
        if (data.empty()) return;
        if (fault == Fault::LastElement) data.back() = before;
        if constexpr (std::same_as<E, float>) {
            // Well within the tolerance.
            if (fault == Fault::OneRankRoundsOtherwise && channel.rank() == 1) data[0] = std::nextafter(data[0], 1e9f);
            if (fault == Fault::OtherBitsEachTime && state.runs % 2 == 0) data[0] = std::nextafter(data[0], 1e9f);
        }
    }
};

enum class Lie { None, OneTag, Nodes, Order, Drop, Damage, Worker };

// Local with a fault.
template <Lie L>
class Lying {
public:
    static constexpr std::string_view name = "lying";
    using Message = hvd::Local::Message;

    explicit Lying(hvd::Local inner) : inner_{std::move(inner)}, topology_{inner_.topology()} {
        if (L == Lie::Nodes) topology_ = hvd::Topology::blocks(rank(), size(), rank() + 1);
    }
    int rank() const { return inner_.rank(); }
    int size() const { return inner_.size(); }
    const hvd::Topology& topology() const { return topology_; }
    std::shared_ptr<hvd::detail::Worker> worker() {
        if (L == Lie::Worker) return std::make_shared<hvd::detail::Worker>();
        return inner_.worker();
    }
    Message send(int peer, int tag, const std::byte* data, std::size_t bytes) {
        if (L == Lie::Damage && bytes == 65537) data = damaged_.data();
        return inner_.send(peer, L == Lie::OneTag ? 0 : tag, data, bytes);
    }
    Message receive(int peer, int tag, std::byte* data, std::size_t bytes) {
        if (L == Lie::Drop && bytes == 255) return {};
        return inner_.receive(peer, L == Lie::OneTag ? 0 : tag, data, bytes);
    }
    bool test(Message& message) { return inner_.test(message); }
    Lying subgroup(std::span<const int> members, int id) {
        std::vector<int> sorted(members.begin(), members.end());
        if (L == Lie::Order) std::sort(sorted.begin(), sorted.end());
        return Lying{inner_.subgroup(sorted, id)};
    }

private:
    hvd::Local inner_;
    hvd::Topology topology_;
    std::vector<std::byte> damaged_ = std::vector<std::byte>(L == Lie::Damage ? 65537 : 0);
};

// What the suite says on the first rank that it speaks to, or nothing.
template <class Check>
std::string complaint(int workers, Check check) {
    std::string text;
    std::mutex mutex;
    const int code = hvd::launch<hvd::Local>(workers, [&](auto& world) {
        try {
            check(world);
        } catch (const hvd::testing::Failure& failure) {
            const std::scoped_lock lock{mutex};
            if (text.empty()) text = failure.what();
            throw;
        }
    });
    CHECK((code == 0) == text.empty());
    return text;
}

std::string about(Fault fault, int workers = 3) {
    return complaint(workers, [&](auto& world) {
        hvd::testing::check_algorithm<hvd::testing::Elements<float, std::int64_t>>(world, Faulty{fault});
    });
}

template <Lie L>
std::string about_transport(int workers = 3) {
    return complaint(workers, [](auto& world) {
        Lying<L> transport{world.transport()};
        hvd::testing::check_transport(transport, 70000);
    });
}

bool has(const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("faulty algorithms") {
    CHECK(about(Fault::None).empty());
    CHECK(about(Fault::None, 1).empty());
    CHECK(has(about(Fault::LastElement), "element"));
    CHECK(has(about(Fault::OneRankRoundsOtherwise), "the result on rank 1 differs in its bits from rank 0's"));
    CHECK(has(about(Fault::OtherBitsEachTime), "a second run gave other bits"));
    CHECK(has(about(Fault::OnlyShort), "is wrong"));
}

TEST_CASE("faulty transports") {
    CHECK(about_transport<Lie::None>().empty());
    CHECK(about_transport<Lie::None>(1).empty());
    CHECK(has(about_transport<Lie::Nodes>(), "nodes"));
    CHECK(has(about_transport<Lie::Order>(5), "another order"));
    CHECK(has(about_transport<Lie::Drop>(), "arrived wrong"));
    CHECK(has(about_transport<Lie::Damage>(), "arrived wrong"));
    CHECK(has(about_transport<Lie::Worker>(), "another worker"));
    CHECK(has(about_transport<Lie::OneTag>(), ""));
}
