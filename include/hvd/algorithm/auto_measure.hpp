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
                                                       {std::size_t{64} << 10, 16, 6},
                                                       {std::size_t{512} << 10, 8, 4},
                                                       {std::size_t{4} << 20, 1, 3}}};

/// What was measured: the slowest rank's best time in seconds; 0 where an algorithm was not tried.
struct AutoTimes {
    std::array<std::array<double, way_count>, auto_trials.size()> seconds{};
    double total = 0;
};

/// Three times slower than the best, so not worth a try at greater lengths. Short messages say nothing about the speed of memory,
/// so Direct is kept until it is that which counts.
constexpr bool has_lost(Way way, std::size_t bytes, double seconds, double fastest) {
    return seconds > 3 * fastest && (way != Way::Direct || bytes >= std::size_t{64} << 10);
}

/// All ranks call, and get the same times. `start(way, data, n, fold)` begins an allreduce. `ways` are tried in the order given.
/// One that `has_lost` is not tried at greater lengths. Ends after about `budget` seconds: where each
/// run takes long, as with more ranks than cores, a single one of each way, or of the first ways, must do.
template <Transport T, class Start>
AutoTimes measure_ways(const Channel<T>& channel, std::vector<Way> ways, double budget, Start&& start) {
    const auto seconds_since = [](Clock::time_point t) {
        return std::chrono::duration<double>(Clock::now() - t).count();
    };
    const auto run = [&](Way way, void* data, std::size_t n, Fold fold) {
        const auto operation = start(way, data, n, fold);
        wait_for(*operation, channel, "Auto's measurement");
    };
    const auto agree = [&](auto& times) { run(Way::Tree, times.data(), times.size(), Fold::of<double>(max)); };
    const Clock::time_point began = Clock::now();
    std::vector<float> data;
    AutoTimes times;
    for (std::size_t i = 0; i < auto_trials.size() && times.total < budget; ++i) {
        const AutoTrial& trial = auto_trials[i];
        data.resize(trial.bytes / sizeof(float));
        const auto timed = [&](Way way) {
            const Clock::time_point t = Clock::now();
            run(way, data.data(), data.size(), Fold::of<float>(sum));
            return seconds_since(t);
        };
        auto& best = times.seconds[i];
        for (const Way way : ways) {
            if (times.total >= budget) break;
            std::array<double, 2> first{timed(way), 0};
            first[1] = seconds_since(began);
            agree(first);
            times.total = first[1];
            double& mine = best[static_cast<std::size_t>(way)];
            mine = first[0];
            const double affordable = std::max(0.0, (budget - times.total) / first[0]);
            const int more = static_cast<int>(std::min<double>(trial.warm_up - 1 + trial.repetitions, affordable));
            for (int k = 1; k <= more; ++k) {
                const double seconds = timed(way);
                if (k <= trial.warm_up || seconds < mine) mine = seconds;
            }
        }
        agree(best);
        const double fastest =
            *std::min_element(best.begin(), best.end(), [](double a, double b) { return a > 0 && (b <= 0 || a < b); });
        std::erase_if(
            ways, [&](Way way) { return has_lost(way, trial.bytes, best[static_cast<std::size_t>(way)], fastest); });
    }
    return times;
}

/// The fastest at each length; from one to the next at the length where the lines through their times cross. One that is less
/// than a tenth faster does not count as faster; beside Direct, one that is less than twice as fast, for Direct is many times
/// faster than measured here when tensors lie in shared memory. Beyond the lengths that were measured: what is usual, with
/// `longest` for long tensors.
template <class Times = AutoTimes>
AutoTable table_from(const Times& times, Way longest = Way::Ring) {
    AutoTable table;
    std::size_t last = way_count, i = 0;
    for (; i < auto_trials.size(); ++i) {
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
            const bool cross =
                before[best] > 0 && now[last] > 0 && lead > 0 && lag >= 0;  // not where Direct is only close
            const double part = cross ? lead / (lead + lag) : 0.5;
            from = auto_trials[i - 1].bytes + 1 +
                   static_cast<std::size_t>(part *
                                            static_cast<double>(auto_trials[i].bytes - auto_trials[i - 1].bytes - 1));
        }
        table.rows.push_back({from, std::string{way_names[best]}});
        last = best;
    }
    if (last == static_cast<std::size_t>(Way::Direct) || i == 0) return table;
    for (const auto& [from, way] :
         {std::pair{std::size_t{8} << 10, Way::HalvingDoubling}, std::pair{std::size_t{512} << 10, longest}}) {
        const auto w = static_cast<std::size_t>(way);
        if (from <= auto_trials[i - 1].bytes || w <= last) continue;
        table.rows.push_back({from, std::string{way_names[w]}});
        last = w;
    }
    return table;
}

}  // namespace hvd::detail
