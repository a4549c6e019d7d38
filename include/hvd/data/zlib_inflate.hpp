// Decompression of gzip data in bounded steps. Empty unless HVD_WITH_ZLIB is defined; needs -lz.
#pragma once

#ifdef HVD_WITH_ZLIB

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <zlib.h>

#include <hvd/core/error.hpp>

namespace hvd {

/// A gzip stream, decompressed as far as it is asked for: memory follows the data, never what a header promises.
class ZlibInflate {
public:
    /// `compressed` must outlive this object. Throws DataError, here and in `read`.
    ZlibInflate(const std::string& path, std::span<const unsigned char> compressed)
        : path_{path}, compressed_{compressed} {
        if (::inflateInit2(&stream_, 15 + 16) != Z_OK)  // largest window, gzip format
            throw DataError{path_, 0, "zlib cannot start, for want of memory"};
    }
    ZlibInflate(const ZlibInflate&) = delete;
    ZlibInflate& operator=(const ZlibInflate&) = delete;
    ~ZlibInflate() { ::inflateEnd(&stream_); }

    /// Appends decompressed bytes until there are `end` of them, or the data end. At the end of the data the checksum
    /// has been verified.
    void read(std::vector<unsigned char>& out, std::size_t end) {
        unsigned char buffer[1 << 15];
        while (out.size() < end && !is_at_end_) {
            const std::size_t wanted = end - out.size();
            stream_.next_out = buffer;
            stream_.avail_out = static_cast<uInt>(wanted < sizeof buffer ? wanted : sizeof buffer);
            step();
            out.insert(out.end(), buffer, stream_.next_out);
        }
    }

private:
    void step() {
        constexpr std::size_t piece = std::size_t{1} << 30;  // zlib counts in unsigned int
        const std::size_t left = compressed_.size() - used_;
        const auto given = static_cast<uInt>(left < piece ? left : piece);
        stream_.next_in = const_cast<Bytef*>(compressed_.data() + used_);
        stream_.avail_in = given;
        const int result = ::inflate(&stream_, Z_NO_FLUSH);
        used_ += given - stream_.avail_in;

        if (result == Z_STREAM_END) next_member();
        else if (result == Z_BUF_ERROR)  // no input is left, and no output was pending
            throw DataError{path_, used_, "the compressed data end too early; the file is truncated"};
        else if (result != Z_OK)
            throw DataError{path_, used_,
                            std::string{"the compressed data are damaged ("} +
                                (stream_.msg ? stream_.msg : "zlib error " + std::to_string(result)) + ")"};
    }

    /// A gzip file may consist of several streams, one behind the other.
    void next_member() {
        if (used_ == compressed_.size()) {
            is_at_end_ = true;
        } else if (compressed_[used_] != 0x1f || used_ + 1 == compressed_.size() || compressed_[used_ + 1] != 0x8b) {
            throw DataError{
                path_, used_,
                std::to_string(compressed_.size() - used_) + " bytes that are no gzip data follow the compressed data"};
        } else {
            ::inflateReset(&stream_);
        }
    }

    std::string path_;
    std::span<const unsigned char> compressed_;
    std::size_t used_ = 0;
    bool is_at_end_ = false;
    z_stream stream_{};
};

}  // namespace hvd

#endif
