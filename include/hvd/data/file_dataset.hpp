// FileDataset: a file of fixed records as a data set, mapped, so that it may be larger than memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <hvd/core/error.hpp>
#include <hvd/core/explain.hpp>
#include <hvd/data/mapped_file.hpp>

namespace hvd {
namespace detail {

template <class Record>
consteval bool explain_record() {
    if constexpr (std::is_trivially_copyable_v<Record>) return true;
    else
        static_assert(never<Record>,
                      "hvd: a record that lies in a file must be trivially copyable; use a struct of numbers");
    return false;
}

}  // namespace detail

/// The records of a file: sample i is the i-th `sizeof(Record)` bytes, as this machine lays a Record out.
template <class Record>
class FileDataset {
public:
    /// Throws DataError when the file cannot be read or ends in the middle of a record.
    explicit FileDataset(std::string path) : file_{std::move(path)} {
        if constexpr (detail::explain_record<Record>()) {
            if (const std::size_t rest = file_.size() % sizeof(Record); rest != 0)
                throw DataError{file_.path(), file_.size() - rest,
                                "the file ends after " + std::to_string(rest) + " of the " +
                                    std::to_string(sizeof(Record)) +
                                    " bytes of a record; it is truncated, or holds other records"};
        }
    }

    std::size_t size() const { return file_.size() / sizeof(Record); }
    bool empty() const { return size() == 0; }
    /// Record `i`, in the mapped file.
    const Record& operator[](std::size_t i) const { return records()[i]; }
    std::span<const Record> records() const {
        // a mapping begins at a page, so every record is aligned
        return {reinterpret_cast<const Record*>(file_.bytes().data()), size()};
    }
    auto begin() const { return records().begin(); }
    auto end() const { return records().end(); }

private:
    MappedFile file_;
};

}  // namespace hvd
