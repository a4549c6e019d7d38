// SharedRegion: memory that the workers of one node have in common, one part per rank. For processes it is POSIX shared
// memory, whose name is gone before anything is written to it, so that no way to die leaves it behind.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>

namespace hvd::detail {

class SharedRegion {
public:
    SharedRegion(std::vector<std::size_t> sizes, std::uint64_t id) : sizes_{std::move(sizes)}, id_{id} {
        for (std::size_t size : sizes_) {
            offsets_.push_back(bytes_);
            bytes_ += (size + alignment - 1) / alignment * alignment;
        }
        if (bytes_ == 0) bytes_ = alignment;
    }
    SharedRegion(const SharedRegion&) = delete;
    SharedRegion& operator=(const SharedRegion&) = delete;
    virtual ~SharedRegion() = default;

    /// Equal for all who share it, different from other regions.
    std::uint64_t id() const { return id_; }
    std::byte* part(int rank) const { return base_ + offsets_[static_cast<std::size_t>(rank)]; }
    std::size_t size(int rank) const { return sizes_[static_cast<std::size_t>(rank)]; }
    std::size_t bytes() const { return bytes_; }
    std::byte* base() const { return base_; }

    /// `data` to `data + size` lie inside.
    bool contains(const void* data, std::size_t size) const {
        const auto* begin = static_cast<const std::byte*>(data);
        return begin >= base_ && begin + size <= base_ + bytes_;
    }

    /// The workers (Worker::id) that have it mapped.
    std::vector<std::uint64_t> workers;

protected:
    static constexpr std::size_t alignment = 4096;
    std::byte* base_ = nullptr;

private:
    std::vector<std::size_t> sizes_, offsets_;
    std::size_t bytes_ = 0;
    std::uint64_t id_;
};

/// For threads of one process.
class HeapRegion final : public SharedRegion {
public:
    HeapRegion(std::vector<std::size_t> sizes, std::uint64_t id) : SharedRegion{std::move(sizes), id} {
        base_ = static_cast<std::byte*>(::operator new (bytes(), std::align_val_t{alignment}));
        std::memset(base_, 0, bytes());
    }
    ~HeapRegion() override { ::operator delete (base_, std::align_val_t{alignment}); }
};

/// For processes: one creates it, the others open it by its name, and the creator removes the name when all have.
class PosixRegion final : public SharedRegion {
public:
    PosixRegion(std::vector<std::size_t> sizes, std::uint64_t id, const std::string& name, bool creates)
        : SharedRegion{std::move(sizes), id} {
        const int file = ::shm_open(name.c_str(), creates ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
        if (file < 0) throw_error("open", errno);
        // Memory that is promised but not there would end the process at the first touch.
        const int code = creates ? ::posix_fallocate(file, 0, static_cast<off_t>(bytes())) : 0;
        void* base = code == 0 ? ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
        const int error = code != 0 ? code : errno;
        ::close(file);
        if (base == MAP_FAILED) {
            if (creates) ::shm_unlink(name.c_str());
            throw_error("make", error);
        }
        base_ = static_cast<std::byte*>(base);
    }
    ~PosixRegion() override {
        if (base_ != nullptr) ::munmap(base_, bytes());
    }

private:
    [[noreturn]] void throw_error(const char* what, int error) const {
        throw TransportError{std::string{"hvd: could not "} + what + " shared memory of " + std::to_string(bytes()) +
                             " bytes: " + std::strerror(error) + "; give /dev/shm more room, or use hvd::Ring"};
    }
};

}  // namespace hvd::detail
