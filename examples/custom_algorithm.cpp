// An allreduce algorithm of your own: a star, in which all send what they have to rank 0, which sends back the result.
// n bytes to and from each of the p-1 others through rank 0, so good for nothing but few ranks and short tensors.
#include <hvd/hvd.hpp>
#include <hvd/testing/algorithm_suite.hpp>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <vector>

struct Star {
    static constexpr std::string_view name = "star";

    /// Called once for each communicator, by all its ranks. What it returns is kept and comes back in `run`.
    template <hvd::Transport T>
    std::vector<unsigned char> prepare(T&) const {
        return {};  // scratch, which grows to the longest tensor
    }

    /// Reduces `data` in place over all ranks.
    template <hvd::Transport T, hvd::Scalar E, class Op>
    void run(hvd::Channel<T> channel, std::vector<unsigned char>& scratch, std::span<E> data, const Op& op) const {
        if (channel.rank() > 0) {
            exchange(channel, channel.send(0, data.data(), data.size_bytes()));
            exchange(channel, channel.receive(0, data.data(), data.size_bytes()));
            return;
        }
        if (scratch.size() < data.size_bytes()) scratch.resize(data.size_bytes());
        const hvd::Fold fold = hvd::Fold::of<E>(op);
        for (int peer = 1; peer < channel.size(); ++peer) {  // in this order, so that all runs give the same bits
            exchange(channel, channel.receive(peer, scratch.data(), data.size_bytes()));
            fold(data.data(), data.data(), scratch.data(), data.size());
        }
        for (int peer = 1; peer < channel.size(); ++peer)
            exchange(channel, channel.send(peer, data.data(), data.size_bytes()));
    }

private:
    template <hvd::Transport T>
    static void exchange(const hvd::Channel<T>& channel, typename T::Message message) {
        channel.wait(message);
    }
};
static_assert(hvd::Algorithm<Star, hvd::Local>);

int main(int argc, char** argv) {
    return hvd::launch(argc, argv, [](auto& world) {
        // Use it: the same collective, another algorithm.
        auto star = world.with(Star{});
        std::vector<float> ones(1000, 1.0f);
        hvd::allreduce(star, ones);
        if (ones[999] != static_cast<float>(world.size())) throw std::runtime_error{"the sum is wrong"};

        // Prove it: lengths, operations, several at once. Throws when a result is wrong on any rank. Without the list of
        // element types it tries all there are, and takes a minute to compile.
        hvd::testing::check_algorithm<hvd::testing::Elements<float, double, std::int32_t>>(world, Star{});
        if (world.rank() == 0) std::printf("OK with %d workers\n", world.size());
    });
}
