// Tree: binomial reduce and broadcast for short vectors, at most 2 ceil(log2 p) messages per rank; for long ones a double
// binary tree, pipelined: n bytes to the parent and n to each child in all, both trees working at the same time.
// Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 2009.
#pragma once

#include <hvd/algorithm/algorithm.hpp>
#include <hvd/algorithm/tree_schedule.hpp>

namespace hvd {

/// Allreduce over trees: few messages, so the right choice for short vectors on many ranks.
struct Tree {
    static constexpr std::string_view name = "tree";
    static constexpr bool is_tagged = true;

    /// From this many bytes on, two pipelined binary trees.
    std::size_t double_from = std::size_t{128} * 1024;
    /// What travels in one message of the double tree.
    std::size_t segment_bytes = std::size_t{64} * 1024;
    std::vector<std::size_t> settings() const { return {double_from, segment_bytes}; }

    template <Transport T>
    detail::ScratchState prepare(T&) const {
        return {};
    }

    template <Transport T>
    std::unique_ptr<detail::Operation> start_fold(Channel<T> channel, detail::ScratchState& state, void* data,
                                                  std::size_t n, Fold fold) const {
        const std::size_t bytes = n * fold.element();
        if (bytes < double_from || bytes == 0 || channel.size() < 3) {
            return detail::begin_schedule(channel, state, BinomialSchedule{channel.rank(), channel.size()},
                                          detail::Layout{n, 1}, data, fold);
        }
        const std::size_t half = (bytes + 1) / 2,
                          segments = segment_bytes == 0 ? 1 : (half + segment_bytes - 1) / segment_bytes;
        return detail::begin_schedule(channel, state, DoubleTreeSchedule{channel.rank(), channel.size(), segments},
                                      detail::Layout{n, 2 * segments}, data, fold);
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, detail::ScratchState& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }
};

}  // namespace hvd
