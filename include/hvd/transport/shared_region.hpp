// SharedRegion: memory that the workers of one node have in common, one part per rank. For processes it is a file without a
// name, so that no way to die leaves it behind; see SharedFile.
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

/// What processes map. It has no name and is found through /proc by those who share it (memfd_create(2)); where /proc does
/// not show other processes it is POSIX shared memory, whose name its maker removes as soon as all have it open.
class SharedFile {
public:
    enum class Kind { Unnamed, Named };

    /// Makes an empty one. Throws TransportError.
    SharedFile(Kind kind, std::uint64_t id) : kind_{kind}, is_own_{true} {
        const auto process = static_cast<long>(::getpid());
        name_ = "/hvd-" + std::to_string(process) + "-" + std::to_string(id);
        if (kind == Kind::Unnamed) {
            file_ = ::memfd_create("hvd", MFD_CLOEXEC);
            name_ = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file_);
        } else {
            file_ = ::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
        }
        if (file_ < 0) fail("make", errno);
    }
    /// Opens one that another process has made. Throws TransportError.
    SharedFile(Kind kind, std::string name) : kind_{kind}, name_{std::move(name)} {
        file_ =
            kind == Kind::Unnamed ? ::open(name_.c_str(), O_RDWR | O_CLOEXEC) : ::shm_open(name_.c_str(), O_RDWR, 0600);
        if (file_ < 0) fail("open", errno);
    }
    SharedFile(const SharedFile&) = delete;
    SharedFile& operator=(const SharedFile&) = delete;
    ~SharedFile() {
        if (file_ >= 0) ::close(file_);
        if (is_own_ && kind_ == Kind::Named) ::shm_unlink(name_.c_str());
    }

    const std::string& name() const { return name_; }

    /// Maps `bytes` of it, which its maker also provides: memory that is promised but not there would end the process at the
    /// first touch. Throws TransportError.
    std::byte* map(std::size_t bytes) const {
        const int code = is_own_ ? ::posix_fallocate(file_, 0, static_cast<off_t>(bytes)) : 0;
        if (code != 0) fail("provide", code);
        void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        if (base == MAP_FAILED) fail("map", errno);
        return static_cast<std::byte*>(base);
    }

private:
    [[noreturn]] void fail(const char* what, int error) const {
        throw TransportError{std::string{"hvd: could not "} + what + " shared memory (" + name_ +
                             "): " + std::strerror(error) + "; give the machine more of it, or use hvd::Ring"};
    }

    Kind kind_;
    bool is_own_ = false;
    std::string name_;
    int file_ = -1;
};

/// For processes.
class MappedRegion final : public SharedRegion {
public:
    MappedRegion(std::vector<std::size_t> sizes, std::uint64_t id, const SharedFile& file)
        : SharedRegion{std::move(sizes), id} {
        base_ = file.map(bytes());
    }
    ~MappedRegion() override { ::munmap(base_, bytes()); }
};

}  // namespace hvd::detail
