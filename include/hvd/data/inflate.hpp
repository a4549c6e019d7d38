// Reading .gz: ZlibInflate where HVD_WITH_ZLIB is defined, NoInflate elsewhere. They are template arguments of the
// classes that read files, so that units built with and without zlib can be linked together.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>

#ifdef HVD_WITH_ZLIB
#include <hvd/data/zlib_inflate.hpp>
#endif

namespace hvd {

/// Refuses compressed files.
class NoInflate {
public:
    NoInflate(const std::string& path, std::span<const unsigned char>) {
        throw DataError{
            path, 0,
            "the file is compressed with gzip, which this program cannot read; define HVD_WITH_ZLIB and link "
            "zlib (-lz), or decompress the file"};
    }
    void read(std::vector<unsigned char>&, std::size_t) {}
};

namespace detail {

inline bool is_gzip(std::span<const unsigned char> bytes) {
    return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

}  // namespace detail
}  // namespace hvd
