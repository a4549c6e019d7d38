// Timeline: what the engine did when, as a Chrome trace (chrome://tracing, Perfetto). The file is valid JSON whenever it
// is read: each event overwrites the closing bracket and writes it again.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_map>

#include <hvd/core/error.hpp>

namespace hvd::detail {

template <class Clock>
class BasicTimeline {
public:
    using TimePoint = typename Clock::time_point;

    BasicTimeline() = default;
    BasicTimeline(const BasicTimeline&) = delete;
    BasicTimeline& operator=(const BasicTimeline&) = delete;
    ~BasicTimeline() { stop(); }

    void start(const std::string& path) {
        const std::scoped_lock lock{mutex_};
        close();
        file_ = std::fopen(path.c_str(), "w");
        if (file_ == nullptr)
            throw UsageError{"hvd: the timeline cannot be written to " + path +
                             "; give a file in a folder that exists"};
        std::fputs("[\n]\n", file_);
        std::fflush(file_);
        is_empty_ = true;
        began_ = Clock::now();
        rows_.clear();
    }
    void stop() {
        const std::scoped_lock lock{mutex_};
        close();
    }
    bool is_on() const {
        const std::scoped_lock lock{mutex_};
        return file_ != nullptr;
    }

    /// Something about a tensor that took from `from` to `to`.
    void span(const std::string& tensor, const char* phase, TimePoint from, TimePoint to) {
        const std::scoped_lock lock{mutex_};
        if (file_ == nullptr || to < began_) return;
        write("\"name\": \"" + std::string{phase} +
              "\", \"ph\": \"X\", \"ts\": " + micros(from < began_ ? began_ : from) + ", \"dur\": " +
              std::to_string(std::chrono::duration<double, std::micro>(to - (from < began_ ? began_ : from)).count()) +
              ", \"pid\": 0, \"tid\": " + std::to_string(row_of(tensor)));
    }

    /// A moment: a round of the engine.
    void mark(const char* name) {
        const std::scoped_lock lock{mutex_};
        if (file_ == nullptr) return;
        write("\"name\": \"" + std::string{name} + "\", \"ph\": \"i\", \"s\": \"g\", \"ts\": " + micros(Clock::now()) +
              ", \"pid\": 0, \"tid\": 0");
    }

private:
    std::string micros(TimePoint t) const {
        return std::to_string(std::chrono::duration<double, std::micro>(t - began_).count());
    }

    /// Each tensor has a row of its own, named once.
    std::size_t row_of(const std::string& tensor) {
        const auto [place, is_new] = rows_.emplace(tensor, rows_.size() + 1);
        if (is_new)
            write("\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 0, \"tid\": " + std::to_string(place->second) +
                  ", \"args\": {\"name\": \"" + escaped(tensor) + "\"}");
        return place->second;
    }

    static std::string escaped(const std::string& text) {
        std::string out;
        for (char c : text) {
            if (c == '"' || c == '\\') out += '\\';
            if (static_cast<unsigned char>(c) < 0x20) {
                char code[8];
                std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
                out += code;
            } else {
                out += c;
            }
        }
        return out;
    }

    /// One write for the event and the bracket: a reader sees the file before or after it.
    void write(const std::string& fields) {
        std::fseek(file_, is_empty_ ? 2 : -3, is_empty_ ? SEEK_SET : SEEK_END);
        const std::string text = (is_empty_ ? "{" : ",\n{") + fields + "}\n]\n";
        std::fwrite(text.data(), 1, text.size(), file_);
        std::fflush(file_);
        is_empty_ = false;
    }

    void close() {
        if (file_ != nullptr) std::fclose(file_);
        file_ = nullptr;
    }

    mutable std::mutex mutex_;
    std::FILE* file_ = nullptr;
    bool is_empty_ = true;
    TimePoint began_{};
    std::unordered_map<std::string, std::size_t> rows_;
};

using Timeline = BasicTimeline<std::chrono::steady_clock>;

}  // namespace hvd::detail
