// An algorithm of a user's that has no more than it must.
#include "sweep.hpp"

namespace {

// Knows neither tags nor how to be left: everything goes to rank 0 and back.
struct OverRankZero {
    static constexpr std::string_view name = "over_rank_zero";

    struct State {};
    template <class T>
    State prepare(T&) const {
        return {};
    }

    template <class T, class E, class Op>
    void run(hvd::Channel<T> channel, State&, std::span<E> data, const Op& op) const {
        if (channel.rank() != 0) {
            exchange(channel, 0, data, true);
            return exchange(channel, 0, data, false);
        }
        const hvd::testing::Buffer<E> other{data.size()};
        for (int r = 1; r < channel.size(); ++r) {
            exchange(channel, r, other.span(), false);
            for (std::size_t i = 0; i < data.size(); ++i) data[i] = op(data[i], other.span()[i]);
        }
        for (int r = 1; r < channel.size(); ++r) exchange(channel, r, data, true);
    }

private:
    template <class T, class E>
    static void exchange(hvd::Channel<T> channel, int peer, std::span<E> data, bool sends) {
        auto message = sends ? channel.send(peer, data.data(), data.size_bytes())
                             : channel.receive(peer, data.data(), data.size_bytes());
        channel.wait(message);
    }
};

}  // namespace

TEST_CASE("an algorithm with name, prepare and run only") {
    using Few = hvd::testing::Elements<bool, std::int8_t, hvd::float16, double, std::complex<float>>;
    sweep([](auto& world) { check_algorithm<Few>(world, OverRankZero{}); }, {1, 2, 3, 5, 8});
    sweep(
        [](auto& world) {
            check_algorithm<Few>(world, hvd::Hierarchical{OverRankZero{}, OverRankZero{}});
        },
        {4, 5}, 2);
}
