// What an MPI launcher tells its processes through the environment.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace hvd::detail {

/// The place of this process in the job that a launcher started, or nothing when there is no launcher.
struct LauncherInfo {
    int rank;
    int size;  // 0: the launcher does not say
};

inline std::optional<int> number_from_environment(const char* name) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') return std::nullopt;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end != '\0' || value < 0 || value > 1 << 30) return std::nullopt;
    return static_cast<int>(value);
}

inline std::optional<LauncherInfo> launcher_info() {
    struct Names {
        const char *rank, *size;
    };
    for (const Names& n : {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, Names{"PMI_RANK", "PMI_SIZE"},
                           Names{"PMIX_RANK", "PMIX_SIZE"}}) {
        if (const auto rank = number_from_environment(n.rank))
            return LauncherInfo{*rank, number_from_environment(n.size).value_or(0)};
    }
    return std::nullopt;
}

}  // namespace hvd::detail
