// How a communicator came to the table that its Auto uses; and the tables measured in this process so far.
#pragma once

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include <hvd/algorithm/auto_measure.hpp>

namespace hvd {

/// The table of one communicator, and what it is based on.
struct AutoReport {
    AutoTable table{};
    std::string origin{};  ///< "given", "measured", "HVD_ALGORITHM", ...
    detail::AutoTimes times{};

    /// A few lines for people: what is taken from which length on, and the times it was decided by.
    template <class Number = double>
    std::string explain() const {
        std::string text = "Auto (" + origin + ")\n";
        for (const auto& row : table.rows)
            text += "  from " + std::to_string(row.from) + " bytes: " + row.algorithm + "\n";
        if (times.total <= 0) return text;
        text += "  times of the slowest rank in microseconds, measured in " +
                std::to_string(static_cast<long>(times.total * 1e3 + 0.5)) + " ms\n";
        for (std::size_t i = 0; i < times.seconds.size(); ++i) {
            std::string line;
            for (std::size_t w = 0; w < detail::way_count; ++w)
                if (const Number seconds = times.seconds[i][w]; seconds > 0)
                    line += ", " + std::string{detail::way_names[w]} + " " +
                            std::to_string(static_cast<long>(seconds * 1e7 + 0.5) / 10) + "." +
                            std::to_string(static_cast<long>(seconds * 1e7 + 0.5) % 10);
            if (!line.empty()) text += "  " + std::to_string(detail::auto_trials[i].bytes) + " bytes" + line + "\n";
        }
        return text;
    }
};

namespace detail {

/// By transport, and by the nodes that the ranks are on. Communicators of one shape are measured once.
template <class T>
class AutoMemory {
public:
    struct Item {
        std::vector<int> shape;
        AutoReport report;
    };

    bool find(const std::vector<int>& shape, AutoReport& report) {
        const std::scoped_lock lock{mutex_};
        for (const Item& item : items_) {
            if (item.shape != shape) continue;
            report = item.report;
            return true;
        }
        return false;
    }
    void keep(const std::vector<int>& shape, const AutoReport& report) {
        const std::scoped_lock lock{mutex_};
        for (const Item& item : items_)
            if (item.shape == shape) return;
        items_.push_back({shape, report});
    }

private:
    std::mutex mutex_;
    std::vector<Item> items_;
};

template <class T>
AutoMemory<T>& auto_memory() {
    static AutoMemory<T> memory;
    return memory;
}

/// What rank 0 tells the others before anything is measured.
struct AutoWord {
    enum : unsigned char { Measure, Table, Error };
    std::array<unsigned char, 1024> bytes{};

    void set(unsigned char kind, std::string_view origin, std::string_view text) {
        bytes[0] = kind;
        std::size_t at = 1;
        for (const std::string_view part : {origin, text}) {
            for (std::size_t i = 0; i < part.size() && at + 2 < bytes.size(); ++i)
                bytes[at++] = static_cast<unsigned char>(part[i]);
            bytes[at++] = 0;
        }
    }
    std::string origin() const { return reinterpret_cast<const char*>(bytes.data()) + 1; }
    std::string text() const { return reinterpret_cast<const char*>(bytes.data()) + 2 + origin().size(); }
};

/// Rank 0's side of it. HVD_ALGORITHM comes before HVD_AUTO_TABLE.
template <class T>
AutoWord auto_word(const std::vector<int>& shape) {
    AutoWord word;
    const char* name = std::getenv("HVD_ALGORITHM");
    const char* path = std::getenv("HVD_AUTO_TABLE");
    AutoReport known;
    try {
        if (name != nullptr)
            word.set(AutoWord::Table, "HVD_ALGORITHM",
                     AutoTable::parse(std::string{"0 "} + name, "the environment variable HVD_ALGORITHM").text());
        else if (path != nullptr) word.set(AutoWord::Table, "HVD_AUTO_TABLE", AutoTable::load(path).text());
        else if (auto_memory<T>().find(shape, known)) word.set(AutoWord::Table, "measured", known.table.text());
    } catch (const UsageError& e) {
        const std::string text{e.what()};
        word.set(AutoWord::Error, "", name != nullptr ? text : text + "; HVD_AUTO_TABLE names it");
    }
    return word;
}

}  // namespace detail
}  // namespace hvd
