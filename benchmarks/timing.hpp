// Timing of contenders side by side: they take turns, so that a machine whose speed drifts treats all alike.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

struct Contender {
    std::string name;
    std::function<void()> run;
    float* data = nullptr;          // what it works on
    std::vector<double> samples{};  // seconds per call

    double quantile(double q) const {
        std::vector<double> sorted = samples;
        std::sort(sorted.begin(), sorted.end());
        return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)];
    }
    double minimum() const { return quantile(0); }
    double median() const { return quantile(0.5); }
    double p99() const { return quantile(0.99); }
};

inline double seconds_of(const std::function<void()>& f, int calls) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / calls;
}

/// One round of every contender is `calls` calls. All ranks must give the same numbers.
inline void take_turns(std::vector<Contender>& contenders, int rounds, int calls,
                       const std::function<void()>& barrier) {
    for (int round = -2; round < rounds; ++round) {  // two to warm up
        for (Contender& c : contenders) {
            barrier();
            const double seconds = seconds_of(c.run, calls);
            if (round >= 0) c.samples.push_back(seconds);
        }
    }
}

/// MPI's temporary memory stays with the process from now on, instead of being given back and faulted in at every call.
inline void keep_memory() {
    ::mallopt(M_MMAP_MAX, 0);
    ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

/// The table in a file, for rank 0 when `path` is given; else it takes nothing. Throws when the file cannot be written.
inline std::ofstream csv_file(int rank, const std::string& path, const char* columns) {
    std::ofstream file;
    if (rank != 0 || path.empty()) return file;
    file.open(path);
    if (!(file << columns << '\n')) throw std::runtime_error("cannot write " + path);
    return file;
}

inline std::string bytes_text(std::size_t bytes) {
    char text[32];
    if (bytes >= std::size_t{1} << 20)
        std::snprintf(text, sizeof text, "%g MiB", static_cast<double>(bytes) / 1048576.0);
    else if (bytes >= 1024) std::snprintf(text, sizeof text, "%g KiB", static_cast<double>(bytes) / 1024.0);
    else std::snprintf(text, sizeof text, "%zu B", bytes);
    return text;
}

}  // namespace bench
