// How Auto finds its table: by the time that each algorithm takes at some lengths, on the ranks that will use it.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include <hvd/algorithm/algorithm.hpp>
#include <hvd/algorithm/auto_table.hpp>

namespace hvd::detail {

/// Lengths tried, in bytes, and how often each: first until an algorithm has touched all memory that it has.
struct AutoTrial {
    std::size_t bytes;
    int warm_up, repetitions;
};
inline constexpr std::array<AutoTrial, 5> auto_trials{{{256, 1, 8},
                                                       {std::size_t{4} << 10, 1, 8},
                                                       {std::size_t{64} << 10, 1, 6},
                                                       {std::size_t{512} << 10, 8, 4},
                                                       {std::size_t{4} << 20, 1, 3}}};

/// What was measured: the slowest rank's best time in seconds; 0 where an algorithm was not tried.
struct AutoTimes {
    std::array<std::array<double, way_count>, auto_trials.size()> seconds{};
    double total = 0;
};

/// All ranks call. `start(way, data, n, fold)` begins an allreduce. Every rank gets the same times. An algorithm that is three
/// times slower than the best is not tried at greater lengths, and nothing is after `budget` seconds.
template <Transport T, class Start>
AutoTimes measure_ways(const Channel<T>& channel, std::vector<Way> ways, double budget, Start&& start) {
    const auto seconds_since = [](Clock::time_point t) {
        return std::chrono::duration<double>(Clock::now() - t).count();
    };
    const Clock::time_point began = Clock::now();
    std::vector<float> data;
    AutoTimes times;
    for (std::size_t i = 0; i < auto_trials.size(); ++i) {
        data.resize(auto_trials[i].bytes / sizeof(float));
        std::array<double, way_count + 1> worst{};
        for (const Way way : ways) {
            double best = 0;
            for (int k = -auto_trials[i].warm_up; k < auto_trials[i].repetitions; ++k) {
                const Clock::time_point t = Clock::now();
                const auto operation = start(way, data.data(), data.size(), Fold::of<float>(sum));
                wait_for(*operation, channel, "Auto's measurement");
                const double seconds = seconds_since(t);
                if (k == 0 || (k > 0 && seconds < best)) best = seconds;
            }
            worst[static_cast<std::size_t>(way)] = best;
        }
        worst[way_count] = seconds_since(began);
        const auto agree = start(Way::Tree, worst.data(), worst.size(), Fold::of<double>(max));
        wait_for(*agree, channel, "Auto's measurement");
        std::copy_n(worst.begin(), way_count, times.seconds[i].begin());
        times.total = worst[way_count];
        double best = 0;
        for (const Way way : ways) {
            const double seconds = worst[static_cast<std::size_t>(way)];
            if (best == 0 || seconds < best) best = seconds;
        }
        std::erase_if(ways, [&](Way way) { return worst[static_cast<std::size_t>(way)] > 3 * best; });
        if (times.total > budget) break;
    }
    return times;
}

/// The fastest at each length; from one to the next at the length where the lines through their times cross. One that is less
/// than a tenth faster does not count as faster; beside Direct, one that is less than twice as fast, for Direct is many times
/// faster than measured here when tensors lie in shared memory.
template <class Times = AutoTimes>
AutoTable table_from(const Times& times) {
    AutoTable table;
    std::size_t last = way_count;
    for (std::size_t i = 0; i < auto_trials.size(); ++i) {
        const auto& now = times.seconds[i];
        std::size_t best = way_count;
        for (std::size_t w = 0; w < way_count; ++w)
            if (now[w] > 0 && (best == way_count || now[w] < now[best])) best = w;
        if (best == way_count) break;
        const auto stays = [&](std::size_t w, double factor) { return now[w] > 0 && now[w] < factor * now[best]; };
        constexpr auto direct = static_cast<std::size_t>(Way::Direct);
        if (stays(direct, 2)) best = direct;
        else if (last != way_count && stays(last, 1.1)) best = last;
        if (best == last) continue;
        std::size_t from = 0;
        if (last != way_count) {
            const auto& before = times.seconds[i - 1];
            const double lead = before[best] - before[last], lag = now[last] - now[best];
            const double part = before[best] > 0 && now[last] > 0 && lead > 0 ? lead / (lead + lag) : 0.5;
            from = auto_trials[i - 1].bytes + 1 +
                   static_cast<std::size_t>(part *
                                            static_cast<double>(auto_trials[i].bytes - auto_trials[i - 1].bytes - 1));
        }
        table.rows.push_back({from, std::string{way_names[best]}});
        last = best;
    }
    return table;
}

}  // namespace hvd::detail
