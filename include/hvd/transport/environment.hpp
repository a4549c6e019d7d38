// The environment variables that hvd knows, and what is said of those that make no sense.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include <hvd/core/error.hpp>

namespace hvd::detail {

/// Throws UsageError when the variable is no number of seconds.
inline std::chrono::duration<double> seconds_from_environment(const char* name, double otherwise) {
    if (const char* text = std::getenv(name)) {
        char* end = nullptr;
        const double value = std::strtod(text, &end);
        if (end != text && *end == '\0' && value >= 0) return std::chrono::duration<double>{value};
        throw UsageError{std::string{"hvd: the environment variable "} + name + " is '" + text +
                         "'; give a number of seconds, 0 for off"};
    }
    return std::chrono::duration<double>{otherwise};
}

/// How long a wait may take before it is reported, and before it is given up.
inline std::chrono::duration<double> stall_warning_from_environment() {
    return seconds_from_environment("HVD_STALL_CHECK_TIME_SECONDS", 60);
}
inline std::chrono::duration<double> stall_abort_from_environment() {
    return seconds_from_environment("HVD_STALL_SHUTDOWN_TIME_SECONDS", 0);
}

/// Throws UsageError for a variable that hvd does not know, which would be a setting that silently does nothing, and for
/// values that every worker reads. Called before workers start and when an engine is built.
template <class Failure = UsageError>
void check_environment() {
    constexpr std::string_view known[] = {"HVD_FUSION_THRESHOLD",
                                          "HVD_FIRST_BUCKET",
                                          "HVD_STALL_CHECK_TIME_SECONDS",
                                          "HVD_STALL_CHECK_DISABLE",
                                          "HVD_STALL_SHUTDOWN_TIME_SECONDS",
                                          "HVD_TIMELINE",
                                          "HVD_BACKGROUND",
                                          "HVD_WORKERS",
                                          "HVD_SUPERVISOR",
                                          "HVD_MPIEXEC",
                                          "HVD_ELASTIC_ENGINE",
                                          "HVD_ISA",
                                          "HVD_ALGORITHM",
                                          "HVD_AUTO_TABLE"};
    for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
        std::string_view name{*variable};
        name = name.substr(0, name.find('='));
        if (!name.starts_with("HVD_") || name.starts_with("HVD_TEST_")) continue;
        bool is_known = false;
        for (std::string_view k : known) is_known = is_known || k == name;
        if (!is_known)
            throw Failure{"hvd: the environment variable " + std::string{name} +
                          " means nothing to hvd; correct its name or unset it (docs/engine.md lists them)"};
    }
    const char* isa = std::getenv("HVD_ISA");
    if (isa != nullptr && std::string_view{isa} != "portable" && std::string_view{isa} != "avx2")
        throw Failure{std::string{"hvd: the environment variable HVD_ISA is '"} + isa + "'; give portable or avx2"};
    static_cast<void>(stall_warning_from_environment());
    static_cast<void>(stall_abort_from_environment());
}

}  // namespace hvd::detail
