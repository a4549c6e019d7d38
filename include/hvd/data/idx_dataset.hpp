// IDX files (the format of MNIST): four bytes 0, 0, type, number of dimensions; each dimension as a big-endian 32-bit
// number; the elements. Plain files are mapped, .gz files decompressed into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/data/inflate.hpp>
#include <hvd/data/mapped_file.hpp>

namespace hvd {
namespace detail {

/// Where the bytes of an IDX file come from, for errors.
struct IdxOrigin {
    const std::string& path;
    const char* note;  // added to each reason
    [[noreturn]] void fail(std::size_t offset, const std::string& reason) const {
        throw DataError{path, offset, reason + note};
    }
};

/// What the beginning of an IDX file says. Nothing in it is believed before the file has proved as long as it says.
struct IdxHeader {
    std::vector<std::size_t> shape{};
    std::size_t bytes = 0;   ///< of the header
    std::size_t sample = 0;  ///< bytes in one sample
    std::size_t end = 0;     ///< where the elements end

    static constexpr std::size_t magic_bytes = 4;

    /// Bytes in the header, from its first four.
    static std::size_t length(const IdxOrigin& origin, std::span<const unsigned char> file) {
        if (file.size() < magic_bytes)
            origin.fail(file.size(), "the file ends inside the header; an IDX file has at least 8 bytes");
        if (file[0] != 0 || file[1] != 0)
            origin.fail(file[0] != 0 ? 0u : 1u, "not an IDX file, which begins with two zero bytes");
        if (file[2] != 0x08)
            origin.fail(2, "the elements are of " + type_name(file[2]) + "; only unsigned bytes (8) are read");
        if (file[3] == 0) origin.fail(3, "the file has no dimensions, so there are no samples in it");
        return magic_bytes + std::size_t{4} * file[3];
    }

    /// `file` holds `length()` bytes, or the whole file if that is shorter.
    static IdxHeader parse(const IdxOrigin& origin, std::span<const unsigned char> file) {
        IdxHeader header;
        header.bytes = length(origin, file);
        if (file.size() < header.bytes)
            origin.fail(file.size(),
                        "the file ends inside the header, which has " + std::to_string(header.bytes) + " bytes");
        header.sample = 1;
        for (std::size_t at = magic_bytes; at < header.bytes; at += 4) {
            const std::size_t extent = std::size_t{file[at]} << 24 | std::size_t{file[at + 1]} << 16 |
                                       std::size_t{file[at + 2]} << 8 | std::size_t{file[at + 3]};
            header.shape.push_back(extent);
            if (at == magic_bytes) continue;  // counts the samples
            if (extent == 0) origin.fail(at, "a dimension is 0, so the samples are empty");
            if (extent > most / header.sample) origin.fail(at, "the dimensions multiply to an absurd size");
            header.sample *= extent;
        }
        const std::size_t count = header.shape[0];
        if (count > (most - header.bytes) / header.sample)
            origin.fail(magic_bytes, "the dimensions multiply to an absurd size");
        header.end = header.bytes + count * header.sample;
        return header;
    }

    /// The file has `size` bytes (more may follow if it has more than `end`).
    void check_end(const IdxOrigin& origin, std::size_t size) const {
        if (size < end)
            origin.fail(size, "the file ends here, but by its header it has " + std::to_string(end) +
                                  " bytes; it is truncated");
        if (size > end) origin.fail(end, "more bytes follow than the header says; the file is damaged");
    }

private:
    static constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();

    static std::string type_name(unsigned char type) {
        switch (type) {
            case 0x09:
                return "type 9 (signed bytes)";
            case 0x0B:
                return "type 11 (16-bit integers)";
            case 0x0C:
                return "type 12 (32-bit integers)";
            case 0x0D:
                return "type 13 (float)";
            case 0x0E:
                return "type 14 (double)";
            default:
                return "the unknown type " + std::to_string(type);
        }
    }
};

}  // namespace detail

/// The samples of an IDX file of unsigned bytes: images, or labels, each of which is one byte.
/// `Inflate` reads compressed files; see IdxDataset.
template <class Inflate>
class BasicIdxDataset {
public:
    /// Throws DataError when the file is missing, truncated or damaged. Compressed files are known by their first two
    /// bytes; in the errors about what is in them, offsets count decompressed bytes.
    explicit BasicIdxDataset(std::string path) : file_{std::move(path)} {
        if (detail::is_gzip(file_.bytes())) {
            inflate();
        } else {
            const detail::IdxOrigin origin{file_.path(), ""};
            header_ = detail::IdxHeader::parse(origin, file_.bytes());
            header_.check_end(origin, file_.size());
        }
    }

    /// Samples in the file: its first dimension.
    std::size_t size() const { return header_.shape.empty() ? 0 : header_.shape[0]; }
    bool empty() const { return size() == 0; }
    /// The bytes of sample `i`. They stay where they are when the data set is moved.
    std::span<const std::uint8_t> operator[](std::size_t i) const {
        return {bytes().data() + header_.bytes + i * header_.sample, header_.sample};
    }
    /// All dimensions; the first counts the samples.
    const std::vector<std::size_t>& shape() const { return header_.shape; }
    /// Bytes in one sample.
    std::size_t sample_size() const { return header_.sample; }
    const std::string& path() const { return file_.path(); }

private:
    void inflate() {
        const detail::IdxOrigin origin{file_.path(), " (counted in the decompressed data)"};
        Inflate stream{file_.path(), file_.bytes()};
        stream.read(inflated_, detail::IdxHeader::magic_bytes);
        stream.read(inflated_, detail::IdxHeader::length(origin, inflated_));
        header_ = detail::IdxHeader::parse(origin, inflated_);
        stream.read(inflated_, header_.end + 1);  // one more, to see whether there is more; only what comes is stored
        header_.check_end(origin, inflated_.size());
        file_.unmap();
    }

    std::span<const unsigned char> bytes() const {
        return inflated_.empty() ? file_.bytes() : std::span<const unsigned char>{inflated_};
    }

    MappedFile file_;
    std::vector<unsigned char> inflated_;
    detail::IdxHeader header_;
};

/// `hvd::IdxDataset images{"train-images-idx3-ubyte"};`, also .gz where HVD_WITH_ZLIB is defined.
#ifdef HVD_WITH_ZLIB
using IdxDataset = BasicIdxDataset<ZlibInflate>;
#else
using IdxDataset = BasicIdxDataset<NoInflate>;
#endif

}  // namespace hvd
