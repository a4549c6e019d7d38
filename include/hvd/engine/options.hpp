// EngineOptions, and the environment variables that set what code leaves open.
#pragma once

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <hvd/core/error.hpp>
#include <hvd/transport/environment.hpp>

namespace hvd {

/// How an engine works. What is not set here comes from the environment, then from the default. The order of the fields is
/// public; new ones go to the end.
struct EngineOptions {
    /// Bytes up to which tensors travel together. 0: each alone. HVD_FUSION_THRESHOLD; default 64 MiB.
    std::optional<std::size_t> fusion_threshold{};
    /// The same for the first bucket of a step, which is to start early. Default 1 MiB.
    std::optional<std::size_t> first_bucket{};
    /// After this long without a rank or tensor that others wait for, stderr names it. 0: never.
    /// HVD_STALL_CHECK_TIME_SECONDS, HVD_STALL_CHECK_DISABLE; default 60 s.
    std::optional<std::chrono::duration<double>> stall_warning{};
    /// After this long all ranks get a StallError. 0: never. HVD_STALL_SHUTDOWN_TIME_SECONDS; default 0.
    std::optional<std::chrono::duration<double>> stall_abort{};
    /// File for a timeline from the start; empty: none. HVD_TIMELINE.
    std::string timeline{};
    /// The same buckets in every run, whatever the timing. Always so; here for completeness.
    std::optional<bool> deterministic{};
    /// Work goes on in a thread of its own while the caller computes. HVD_BACKGROUND; default true where the transport
    /// allows calls from several threads.
    std::optional<bool> background{};
};

namespace detail {

/// The options with every field set.
struct EngineSettings {
    std::size_t fusion_threshold, first_bucket;
    std::chrono::duration<double> stall_warning, stall_abort;
    std::string timeline;
    bool background;
};

inline std::size_t bytes_from_environment(const char* name, std::size_t otherwise) {
    const char* text = std::getenv(name);
    if (text == nullptr) return otherwise;
    char* end = nullptr;
    const unsigned long long value = std::strtoull(text, &end, 10);
    if (end == text || *end != '\0' || *text == '-')
        throw UsageError{std::string{"hvd: the environment variable "} + name + " is '" + text +
                         "'; give a number of bytes"};
    return static_cast<std::size_t>(value);
}

inline bool flag_from_environment(const char* name, bool otherwise) {
    const char* text = std::getenv(name);
    if (text == nullptr) return otherwise;
    const std::string_view value{text};
    if (value == "1" || value == "true") return true;
    if (value == "0" || value == "false") return false;
    throw UsageError{std::string{"hvd: the environment variable "} + name + " is '" + text + "'; give 0 or 1"};
}

template <class Options = EngineOptions>
EngineSettings settle(const Options& options, bool may_use_threads) {
    check_environment();
    EngineSettings s{};
    s.fusion_threshold = options.fusion_threshold
                             ? *options.fusion_threshold
                             : bytes_from_environment("HVD_FUSION_THRESHOLD", std::size_t{64} << 20);
    s.first_bucket =
        options.first_bucket ? *options.first_bucket : bytes_from_environment("HVD_FIRST_BUCKET", std::size_t{1} << 20);
    if (s.first_bucket > s.fusion_threshold) s.first_bucket = s.fusion_threshold;
    s.stall_warning = options.stall_warning ? *options.stall_warning : stall_warning_from_environment();
    if (!options.stall_warning && flag_from_environment("HVD_STALL_CHECK_DISABLE", false)) s.stall_warning = {};
    s.stall_abort = options.stall_abort ? *options.stall_abort : stall_abort_from_environment();
    const char* timeline = std::getenv("HVD_TIMELINE");
    s.timeline = !options.timeline.empty() || timeline == nullptr ? options.timeline : timeline;
    s.background = options.background ? *options.background : flag_from_environment("HVD_BACKGROUND", true);
    s.background = s.background && may_use_threads;
    return s;
}

}  // namespace detail
}  // namespace hvd
