// CaughtStderr: what is printed on stderr meanwhile.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace hvd_test {

/// While it lives, stderr goes to memory. One at a time.
class CaughtStderr {
public:
    CaughtStderr() {
        std::fflush(stderr);
        ::dup2(memory_, 2);
    }
    CaughtStderr(const CaughtStderr&) = delete;
    CaughtStderr& operator=(const CaughtStderr&) = delete;
    ~CaughtStderr() {
        std::fflush(stderr);
        ::dup2(kept_, 2);
        ::close(kept_);
        ::close(memory_);
    }
    std::string text() const {
        std::fflush(stderr);
        std::string text(static_cast<std::size_t>(::lseek(memory_, 0, SEEK_END)), '\0');
        return ::pread(memory_, text.data(), text.size(), 0) < 0 ? std::string{} : text;
    }

private:
    int kept_ = ::dup(2), memory_ = ::memfd_create("stderr", 0);
};

}  // namespace hvd_test
