// A whole file as read-only memory (POSIX mmap): pages are read when they are touched, and shared by the processes of a
// node.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <hvd/core/descriptor.hpp>
#include <hvd/core/error.hpp>

namespace hvd {

/// A file mapped into memory for as long as this object lives. The file must not be made shorter meanwhile.
class MappedFile {
public:
    MappedFile() = default;

    /// Throws DataError when the file cannot be opened or is no regular file.
    explicit MappedFile(std::string path) : path_{std::move(path)} {
        const detail::Descriptor file{
            ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe must not block
        if (file.number() < 0) fail("cannot be opened");
        struct stat status {};
        if (::fstat(file.number(), &status) != 0) fail("cannot be examined");
        if (!S_ISREG(status.st_mode)) throw DataError{path_, 0, "is no regular file; pass the path of one"};
        if (status.st_size == 0) return;  // cannot be mapped
        const auto size = static_cast<std::size_t>(status.st_size);
        void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
        if (memory == MAP_FAILED) fail("cannot be mapped");
        bytes_ = {static_cast<const unsigned char*>(memory), size};
    }

    MappedFile(MappedFile&& other) noexcept : path_{std::move(other.path_)}, bytes_{std::exchange(other.bytes_, {})} {}
    MappedFile& operator=(MappedFile&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~MappedFile() { unmap(); }

    /// Gives the memory back; the path remains.
    void unmap() noexcept {
        if (!bytes_.empty()) ::munmap(const_cast<unsigned char*>(bytes_.data()), bytes_.size());
        bytes_ = {};
    }

    const std::string& path() const { return path_; }
    std::span<const unsigned char> bytes() const { return bytes_; }
    std::size_t size() const { return bytes_.size(); }

private:
    [[noreturn]] void fail(const char* what) const {
        throw DataError{path_, 0, what + std::string{": "} + std::strerror(errno)};
    }

    std::string path_;
    std::span<const unsigned char> bytes_;
};

}  // namespace hvd
