// The table by which Auto picks an algorithm, and its form as text.
#pragma once

#include <array>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <hvd/core/error.hpp>

namespace hvd {
namespace detail {

/// What Auto can do with a tensor.
enum class Way : unsigned char { Tree, HalvingDoubling, Ring, Direct, Hierarchical };
inline constexpr std::size_t way_count = 5;
inline constexpr std::array<std::string_view, way_count> way_names{"tree", "halving_doubling", "ring", "direct",
                                                                   "hierarchical"};
inline constexpr std::string_view way_list = "tree, halving_doubling, ring, direct or hierarchical";

}  // namespace detail

/// Which algorithm Auto takes from how many bytes on. The rows ascend and the first begins at 0. All ranks must have the
/// same. An algorithm that a communicator cannot carry out is replaced: Direct between nodes by Hierarchical, Hierarchical
/// within one node by Direct, and either by Ring.
struct AutoTable {
    struct Row {
        std::size_t from;       ///< bytes
        std::string algorithm;  ///< its name: tree, halving_doubling, ring, direct, hierarchical
    };
    std::vector<Row> rows;

    /// One line per row, such as "65536 ring"; what save() writes and load() and parse() read.
    std::string text() const {
        std::string lines;
        for (const Row& row : rows) lines += std::to_string(row.from) + " " + row.algorithm + "\n";
        return lines;
    }

    /// Throws UsageError, which names `source`, when the text is no table.
    template <class Failure = UsageError>
    static AutoTable parse(std::string_view text, const std::string& source);

    /// Throws UsageError when the file cannot be read, or is no table.
    static AutoTable load(const std::string& path);
    /// Throws UsageError when the file cannot be written.
    void save(const std::string& path) const;
};

namespace detail {

/// The beginning of what somebody wrote, fit for a message.
template <class Text = std::string>
Text printable(std::string_view text) {
    Text shown{text.substr(0, 40)};
    for (char& c : shown)
        if (c < ' ' || c > '~') c = '?';
    return shown;
}

/// The table as it is looked up on each call.
struct AutoRows {
    static constexpr std::size_t most = 16;
    std::array<std::size_t, most> from{};
    std::array<Way, most> way{};
    std::size_t count = 0;

    Way at(std::size_t bytes) const {
        std::size_t i = count - 1;
        while (i > 0 && bytes < from[i]) --i;
        return way[i];
    }
};

/// Throws UsageError when the table is not as it must be.
template <class Failure = UsageError>
AutoRows rows_of_table(const AutoTable& table, const std::string& source) {
    const auto fail = [&](const std::string& what) {
        throw Failure{"hvd: the table for Auto in " + source + " " + what};
    };
    AutoRows rows;
    if (table.rows.empty()) fail("has no rows; give it one that begins at 0");
    if (table.rows.size() > AutoRows::most) fail("has more than " + std::to_string(AutoRows::most) + " rows");
    for (const AutoTable::Row& row : table.rows) {
        std::size_t w = 0;
        while (w < way_count && way_names[w] != row.algorithm) ++w;
        if (w == way_count) fail("names '" + printable(row.algorithm) + "'; give " + std::string{way_list});
        if (rows.count == 0 ? row.from != 0 : row.from <= rows.from[rows.count - 1])
            fail("must begin at 0 and ascend, and has " + std::to_string(row.from));
        rows.from[rows.count] = row.from;
        rows.way[rows.count++] = static_cast<Way>(w);
    }
    return rows;
}

}  // namespace detail

template <class Failure>
AutoTable AutoTable::parse(std::string_view text, const std::string& source) {
    AutoTable table;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || line[0] == '#') continue;
        std::size_t from = 0;
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), from);
        const auto digits = static_cast<std::size_t>(end - line.data());
        if (error != std::errc{} || digits == line.size() || *end != ' ')
            throw Failure{"hvd: the table for Auto in " + source + " has the line '" + detail::printable(line) +
                          "'; a line is a number of bytes, a space, and " + std::string{detail::way_list}};
        table.rows.push_back({from, std::string{line.substr(digits + 1)}});
    }
    detail::rows_of_table<Failure>(table, source);
    return table;
}

inline AutoTable AutoTable::load(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (file == nullptr) throw UsageError{"hvd: the table for Auto in '" + path + "' cannot be read"};
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    const bool is_whole = std::fgetc(file) == EOF, is_read = std::ferror(file) == 0;
    std::fclose(file);
    if (!is_read) throw UsageError{"hvd: the table for Auto in '" + path + "' cannot be read"};
    if (!is_whole) throw UsageError{"hvd: the table for Auto in " + path + " is longer than 4096 bytes"};
    return parse(text, path);
}

inline void AutoTable::save(const std::string& path) const {
    std::FILE* file = std::fopen(path.c_str(), "w");
    const std::string lines = text();
    const bool written = file != nullptr && std::fputs(lines.c_str(), file) >= 0;
    if (file == nullptr || std::fclose(file) != 0 || !written)
        throw UsageError{"hvd: the table for Auto cannot be written to " + path};
}

}  // namespace hvd
