// SlotFile: growing memory without a name, which outlives the worker that writes it: the keeper of a job (its supervisor, or
// the thread that launched it) holds it open, and workers find it through /proc.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include <hvd/core/error.hpp>

namespace hvd::detail {

class SlotFile {
public:
    /// An empty one. Throws TransportError.
    static SlotFile make() {
        SlotFile file;
        file.file_ = ::memfd_create("hvd-state", MFD_CLOEXEC);
        if (file.file_ < 0) file.fail("make", errno);
        return file;
    }
    /// The one that process `keeper` holds open as `number`. Throws TransportError.
    static SlotFile open(int keeper, int number) {
        SlotFile file;
        const std::string path = "/proc/" + std::to_string(keeper) + "/fd/" + std::to_string(number);
        file.file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (file.file_ < 0) file.fail("open", errno);
        return file;
    }
    SlotFile() = default;
    SlotFile(SlotFile&& other) noexcept
        : file_{std::exchange(other.file_, -1)},
          base_{std::exchange(other.base_, nullptr)},
          mapped_{std::exchange(other.mapped_, 0)} {}
    SlotFile& operator=(SlotFile&& other) noexcept {
        std::swap(file_, other.file_);
        std::swap(base_, other.base_);
        std::swap(mapped_, other.mapped_);
        return *this;
    }
    ~SlotFile() {
        unmap();
        if (file_ >= 0) ::close(file_);
    }

    int number() const { return file_; }
    std::size_t mapped() const { return mapped_; }

    std::size_t size() const {
        struct stat status {};
        if (::fstat(file_, &status) != 0) fail("look at", errno);
        return static_cast<std::size_t>(status.st_size);
    }

    /// Makes it at least `bytes` long and maps it whole. What it held stays; new bytes are zero. Throws TransportError:
    /// memory that is promised but not there would end the process at the first touch.
    std::byte* reserve(std::size_t bytes) {
        if (bytes <= mapped_) return base_;
        const std::size_t length = (bytes + step - 1) / step * step;
        if (const int code = ::posix_fallocate(file_, 0, static_cast<off_t>(length)); code != 0) fail("provide", code);
        return map();
    }

    /// Maps what there is, perhaps nothing. Throws TransportError.
    std::byte* map() {
        const std::size_t length = size();
        if (length == mapped_) return base_;
        unmap();
        if (length == 0) return nullptr;
        void* base = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_, 0);
        if (base == MAP_FAILED) fail("map", errno);
        base_ = static_cast<std::byte*>(base);
        mapped_ = length;
        return base_;
    }

private:
    static constexpr std::size_t step = std::size_t{64} << 10;

    void unmap() {
        if (base_ != nullptr) ::munmap(base_, mapped_);
        base_ = nullptr;
        mapped_ = 0;
    }
    [[noreturn]] static void fail(const char* what, int error) {
        throw TransportError{std::string{"hvd: could not "} + what + " memory for the state of the job: " +
                             std::strerror(error) + "; give the machine more of it, or train without .elastic"};
    }

    int file_ = -1;
    std::byte* base_ = nullptr;
    std::size_t mapped_ = 0;
};

}  // namespace hvd::detail
