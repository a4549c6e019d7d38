// Transports and algorithms that lack something, and transports that are not there.
#include <string_view>
#include <vector>

#include <hvd/algorithm/ring.hpp>
#include <hvd/comm/allreduce.hpp>
#include <hvd/comm/launch.hpp>
#include <hvd/testing/archetypes.hpp>

namespace my {

using hvd::testing::MinimalTransport;

struct NoRanks {
    static constexpr std::string_view name = "no_ranks";
};
struct NoSend : MinimalTransport {
    void send() = delete;
};
struct NoSubgroup : MinimalTransport {
    void subgroup() = delete;
};

struct Nameless {
    template <class T>
    int prepare(T&) const {
        return 0;
    }
    template <class T, class E, class Op>
    void run(hvd::Channel<T>, int&, std::span<E>, const Op&) const {}
};
struct NoPrepare {
    static constexpr std::string_view name = "no_prepare";
    template <class T, class E, class Op>
    void run(hvd::Channel<T>, int&, std::span<E>, const Op&) const {}
};
struct NoRun {
    static constexpr std::string_view name = "no_run";
    template <class T>
    int prepare(T&) const {
        return 0;
    }
};
struct RunsAlone : NoRun {
    void run() const {}
};

}  // namespace my

int main() {
    const hvd::Communicator right{my::MinimalTransport{}, hvd::testing::MinimalAlgorithm{}};
    hvd::launch<hvd::Local>(2, [](auto& world) {
        const auto ring = world.with(hvd::Ring{});
#if CASE == 1
        // expect: this algorithm lacks a static constexpr name
        world.with(my::Nameless{});
#elif CASE == 2
        // expect: this algorithm lacks prepare(transport) const
        world.with(my::NoPrepare{});
#elif CASE == 3
        // expect: this algorithm lacks run(channel, state, std::span<E> data, op) const
        world.with(my::NoRun{});
#elif CASE == 4
        // expect: this algorithm lacks run(channel, state, std::span<E> data, op) const
        world.with(my::RunsAlone{});
#elif CASE == 5
        // expect: this algorithm lacks
        world.with(3);
#endif
    });
#if CASE == 6
    // expect: this transport lacks rank(), size() or topology()
    hvd::Communicator<my::NoRanks> comm{my::NoRanks{}};
#elif CASE == 7
    // expect: this transport lacks Message, send, receive or test
    hvd::Communicator<my::NoSend> comm{my::NoSend{}};
#elif CASE == 8
    // expect: this transport lacks subgroup(), worker() or name
    hvd::Communicator<my::NoSubgroup> comm{my::NoSubgroup{}};
#elif CASE == 9
    // expect: this algorithm lacks run
    hvd::Communicator<my::MinimalTransport, my::NoRun> comm{my::MinimalTransport{}};
#elif CASE == 10
    // expect: starts workers on hvd::Local, hvd::Mpi or hvd::Nccl
    hvd::launch<my::MinimalTransport>(2, [](auto&) {});
#elif CASE == 11
    // expect: this algorithm lacks a static constexpr name
    hvd::launch<hvd::Local, my::Nameless>(2, [](auto&) {});
#endif
}
