// How a tensor goes to or from a root: along a binomial tree when it is short, along a chain when it is long.
#pragma once

#include <cstddef>
#include <memory>

#include <hvd/algorithm/chain.hpp>
#include <hvd/algorithm/schedule_run.hpp>
#include <hvd/algorithm/tree_schedule.hpp>
#include <hvd/comm/context.hpp>

namespace hvd::detail {

/// Reduces n elements to `root` (contents elsewhere are lost), or broadcasts them from it.
template <Transport T>
std::unique_ptr<Operation> start_rooted(Context<T>& context, Channel<T> channel, void* data, std::size_t n, Fold fold,
                                        int root, bool reduces) {
    constexpr std::size_t chain_from = std::size_t{128} * 1024, segment_bytes = std::size_t{128} * 1024;
    const int rank = channel.rank(), size = channel.size();
    const std::size_t bytes = n * fold.element();
    if (bytes < chain_from) {
        const auto part = reduces ? BinomialSchedule::Part::Reduce : BinomialSchedule::Part::Broadcast;
        return std::make_unique<ScheduleRun<T, BinomialSchedule>>(channel, BinomialSchedule{rank, size, root, part},
                                                                  Layout{n, 1}, data, fold, context.pool);
    }
    const auto part = reduces ? ChainSchedule::Part::Reduce : ChainSchedule::Part::Broadcast;
    const std::size_t segments = (bytes + segment_bytes - 1) / segment_bytes;
    return std::make_unique<ScheduleRun<T, ChainSchedule>>(channel, ChainSchedule{rank, size, root, segments, part},
                                                           Layout{n, segments}, data, fold, context.pool);
}

}  // namespace hvd::detail
