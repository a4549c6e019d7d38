// Which samples of an epoch belong to which step and rank. A step covers the next p * batch_size places of the epoch's
// permutation on all ranks together, so the position of the whole job is one number, whatever the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd {

/// What happens when the samples do not fill the last batches of an epoch.
enum class Last {
    Pad,     ///< repeat at most p-1 samples, so that all ranks have equally many; the last batch may be short
    Drop,    ///< full batches only: the rest is left out
    Uneven,  ///< every sample exactly once: the last batch of a rank may be shorter than that of another, or empty
};

namespace detail {

/// A rank's part of a step: `count` places from `begin`, counted from the first place of the step.
struct Share {
    std::size_t begin = 0, count = 0;
    friend constexpr bool operator==(const Share&, const Share&) = default;
};

/// Equal parts; the first ranks take one more.
constexpr Share even_share(std::size_t samples, std::size_t rank, std::size_t ranks) {
    const std::size_t each = samples / ranks, extra = samples % ranks;
    return {rank * each + (rank < extra ? rank : extra), each + (rank < extra ? 1 : 0)};
}

/// Parts in proportion to the weights by the method of largest remainders; equal remainders favour the lower rank.
/// The weights are finite, none is negative and one is positive.
constexpr Share weighted_share(std::size_t samples, std::size_t rank, const std::vector<double>& weights) {
    double largest = 0, sum = 0;
    for (double w : weights) largest = w > largest ? w : largest;
    for (double w : weights) sum += w / largest;  // scaled, so that it cannot overflow

    std::vector<std::size_t> counts(weights.size());
    std::vector<double> remainders(weights.size());
    std::size_t left = samples;
    for (std::size_t r = 0; r < weights.size(); ++r) {
        const double quota = static_cast<double>(samples) * (weights[r] / largest / sum);
        counts[r] = static_cast<std::size_t>(quota);
        if (counts[r] > left) counts[r] = left;  // quotas are rounded: they may add up to a little too much
        left -= counts[r];
        remainders[r] = weights[r] > 0 ? quota - static_cast<double>(counts[r]) : -1;
    }
    while (left > 0) {
        std::size_t next = 0;
        for (std::size_t r = 1; r < weights.size(); ++r)
            if (remainders[r] > remainders[next]) next = r;
        ++counts[next];
        --left;
        remainders[next] -= 1;
    }
    Share share{0, counts[rank]};
    for (std::size_t r = 0; r < rank; ++r) share.begin += counts[r];
    return share;
}

/// The steps of an epoch, or of the rest of one, as one rank sees them.
struct ShardPlan {
    std::size_t length = 0;  ///< samples in the whole set
    std::size_t first = 0;   ///< the place at which this rank begins; those before it are used
    std::size_t window = 0;  ///< places that a full step covers
    std::size_t steps = 0;
    Share full{}, tail{};  ///< this rank's part of a full step, and of the last

    /// The place at which step `s` begins.
    constexpr std::size_t place(std::size_t s) const { return first + s * window; }

    constexpr Share share(std::size_t s) const { return s + 1 == steps ? tail : full; }

    /// The position of the job when step `s` is done. The last step ends the epoch, also where it leaves samples out.
    constexpr std::size_t position_after(std::size_t s) const { return s + 1 >= steps ? length : place(s + 1); }
};

/// `weights` is empty (equal parts) or has one weight per rank.
constexpr ShardPlan make_shard_plan(std::size_t length, std::size_t first, std::size_t batch_size, Last last,
                                    std::size_t rank, std::size_t ranks, const std::vector<double>& weights) {
    ShardPlan plan{length, first, batch_size > SIZE_MAX / ranks ? SIZE_MAX : batch_size * ranks};
    const std::size_t rest = length - first, overhang = rest % plan.window;
    plan.steps = rest / plan.window + (overhang > 0 && last != Last::Drop ? 1 : 0);
    if (plan.steps == 0) return plan;

    const auto share = [&](std::size_t samples) {
        return weights.empty() ? even_share(samples, rank, ranks) : weighted_share(samples, rank, weights);
    };
    std::size_t tail = overhang > 0 && last != Last::Drop ? overhang : plan.window;
    if (last == Last::Pad && tail % ranks > 0) tail += ranks - tail % ranks;
    plan.tail = share(tail);
    if (plan.steps > 1) plan.full = share(plan.window);
    return plan;
}

}  // namespace detail
}  // namespace hvd
