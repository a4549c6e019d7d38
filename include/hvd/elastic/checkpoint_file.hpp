// CheckpointFile: a committed state on disk. The old file is kept as FILE.previous, and what is read is checked first.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hvd/core/descriptor.hpp>
#include <hvd/elastic/checkpoint_format.hpp>
#include <hvd/elastic/fault_point.hpp>

namespace hvd::detail {

/// An open file; errors become a DataError about `path`.
class CheckpointDescriptor {
public:
    CheckpointDescriptor(const std::string& name, int flags, const std::string& path)
        : path_{path}, file_{::open(name.c_str(), flags | O_CLOEXEC, 0666)} {}
    int number() const { return file_.number(); }

    void write(const std::byte* from, std::size_t bytes, std::size_t at) const {
        while (bytes > 0) {
            const ssize_t n = ::pwrite(number(), from, bytes, static_cast<off_t>(at));
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) fail("written", at);
            from += n;
            at += static_cast<std::size_t>(n);
            bytes -= static_cast<std::size_t>(n);
        }
    }
    /// Returns how many there were.
    std::size_t read(std::byte* to, std::size_t bytes) const {
        std::size_t at = 0;
        while (at < bytes) {
            const ssize_t n = ::pread(number(), to + at, bytes - at, static_cast<off_t>(at));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) fail("read", at);
            if (n == 0) break;
            at += static_cast<std::size_t>(n);
        }
        return at;
    }
    void sync() const {
        if (::fsync(number()) != 0) fail("written", 0);
    }
    [[noreturn]] void fail(const char* what, std::size_t at) const { fail(path_, what, at); }
    [[noreturn]] static void fail(const std::string& path, const char* what, std::size_t at) {
        throw DataError{path, at,
                        std::string{"the checkpoint could not be "} + what + ": " + std::strerror(errno) +
                            "; see to the folder and the room in it, or name another file"};
    }

private:
    const std::string& path_;
    Descriptor file_;
};

class CheckpointFile {
public:
    explicit CheckpointFile(std::string path) : path_{std::move(path)} {}

    const std::string& path() const { return path_; }
    std::string previous() const { return path_ + ".previous"; }

    /// The newest state there is. A damaged file is refused with a sentence on stderr, and the one before is used. Nothing
    /// when there is no file. Throws DataError when there are only damaged ones.
    std::optional<CheckpointImage> read() {
        try {
            if (auto image = read_one(path_)) {
                is_good_ = true;
                return image;
            }
        } catch (const DataError& e) {
            std::optional<CheckpointImage> image;
            try {
                image = read_one(previous());
            } catch (const DataError&) {  // the newer one is what the user asks about
            }
            if (!image) throw;
            std::fprintf(stderr, "%s; the one before, %s, is used\n", e.what(), previous().c_str());
            return image;
        }
        auto image = read_one(previous());
        if (!image && ::access(folder().c_str(), W_OK | X_OK) != 0)  // better now than after the training
            CheckpointDescriptor::fail(path_, "made", 0);
        return image;
    }

    /// Whenever the machine stops, what `read` finds is this state or the one before. Throws DataError; then the old files
    /// are as they were.
    void write(const SavedState& state) {
        const std::string temporary = path_ + ".new";
        const CheckpointDescriptor file = make_alone(temporary);
        try {
            write_checkpoint_image(state, [&file](const std::byte* from, std::size_t bytes, std::size_t at) {
                file.write(from, bytes, at);
            });
            fault_point("checkpoint: before it is on the disk", 0);
            file.sync();
        } catch (const DataError&) {
            ::unlink(temporary.c_str());
            throw;
        }
        fault_point("checkpoint: before it has its name", 0);
        if (is_worth_keeping()) {
            if (::rename(path_.c_str(), previous().c_str()) != 0) give_up("put by", temporary);
            fault_point("checkpoint: between the names", 0);
        }
        if (::rename(temporary.c_str(), path_.c_str()) != 0) give_up("given its name", temporary);
        is_good_ = true;
        const CheckpointDescriptor around{folder(), O_RDONLY | O_DIRECTORY, path_};
        if (around.number() >= 0) ::fsync(around.number());  // file systems without it have nothing to say here
        fault_point("checkpoint: written", 0);
    }

private:
    std::string folder() const {
        const std::size_t slash = path_.rfind('/');
        return slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    }

    /// The empty file that is to be renamed, which no other job writes to while it is open.
    CheckpointDescriptor make_alone(const std::string& name) const {
        for (;;) {
            CheckpointDescriptor file{name, O_WRONLY | O_CREAT, path_};
            if (file.number() < 0) file.fail("made", 0);
            if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0)
                throw DataError{path_, 0, "another job writes this checkpoint; give each job a file of its own"};
            struct stat opened {
            }, named{};
            const bool is_it = ::fstat(file.number(), &opened) == 0 && ::stat(name.c_str(), &named) == 0 &&
                               opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
            if (!is_it) continue;  // another job has renamed it meanwhile
            if (::ftruncate(file.number(), 0) != 0) file.fail("made", 0);
            return file;
        }
    }

    std::optional<CheckpointImage> read_one(const std::string& name) const {
        const CheckpointDescriptor file{name, O_RDONLY, name};
        if (file.number() < 0 && errno == ENOENT) return std::nullopt;
        struct stat status {};
        if (file.number() < 0 || ::fstat(file.number(), &status) != 0) file.fail("read", 0);
        CheckpointHeader header{};
        const auto size = static_cast<std::size_t>(status.st_size);
        const std::size_t there = file.read(reinterpret_cast<std::byte*>(&header), sizeof header);
        check_checkpoint_header(header, there, size, name);
        auto image = std::make_shared<std::vector<std::byte>>(size);
        if (file.read(image->data(), size) != size)
            throw DataError{name, size, "the checkpoint became shorter while it was read; try again"};
        check_checkpoint_image(*image, name);
        return image;
    }

    /// A damaged file must not take the place of a good one.
    bool is_worth_keeping() const {
        try {
            return is_good_ ? ::access(path_.c_str(), F_OK) == 0 : read_one(path_).has_value();
        } catch (const DataError&) {
            return false;
        }
    }

    [[noreturn]] void give_up(const char* what, const std::string& temporary) const {
        const int error = errno;
        ::unlink(temporary.c_str());
        throw DataError{path_, 0,
                        std::string{"the checkpoint could not be "} + what + ": " + std::strerror(error) +
                            "; see to its folder, or name another file"};
    }

    std::string path_;
    bool is_good_ = false;  // the file at `path` has been read or written whole
};

}  // namespace hvd::detail
