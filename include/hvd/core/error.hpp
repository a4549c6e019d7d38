// The exceptions hvd throws. Each text is one sentence: what was wrong, where, on which rank, and what to do.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace hvd {

/// Base of everything that hvd throws.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The call is wrong (a root that does not exist, counts that do not add up). Nothing was sent; the communicator works.
class UsageError : public Error {
public:
    using Error::Error;
};

/// The ranks made different calls. Every rank gets the same text, which names the ranks; the communicator works.
class MismatchError : public UsageError {
public:
    using UsageError::UsageError;
};

/// A message could not be delivered, or the job is ending. The communicator is dead.
class TransportError : public Error {
public:
    using Error::Error;
};

/// A peer is gone. `rank()` is its rank in the communicator of the call.
class PeerFailure : public TransportError {
public:
    PeerFailure(const std::string& text, int rank) : TransportError{text}, rank_{rank} {}
    int rank() const noexcept { return rank_; }

private:
    int rank_;
};

/// An operation waited longer than `stall_abort` for ranks that did not come.
class StallError : public TransportError {
public:
    using TransportError::TransportError;
};

/// A worker has died or is to join, so every rank of an elastic job leaves the body and enters it again, where constructors
/// restore what was committed. Comes out of any call of hvd; no std::exception, so that handlers of errors let it pass. One
/// that catches everything must throw it on.
class WorldChanged {
public:
    explicit WorldChanged(std::string text) : text_{std::move(text)} {}
    const char* what() const noexcept { return text_.c_str(); }

private:
    std::string text_;
};

/// A file is missing, truncated or damaged. `offset()` is the byte at which that was found.
class DataError : public Error {
public:
    DataError(std::string file, std::size_t offset, const std::string& reason)
        : Error{"hvd: " + file + " at byte " + std::to_string(offset) + ": " + reason},
          file_{std::move(file)},
          reason_{reason},
          offset_{offset} {}
    const std::string& file() const noexcept { return file_; }
    std::size_t offset() const noexcept { return offset_; }
    /// What follows file and byte in the text.
    const std::string& reason() const noexcept { return reason_; }

private:
    std::string file_, reason_;
    std::size_t offset_;
};

namespace detail {

/// "hvd: <operation> on rank r of p: <cause>"
inline std::string located(const std::string& operation, int rank, int size, const std::string& cause) {
    return "hvd: " + operation + " on rank " + std::to_string(rank) + " of " + std::to_string(size) + ": " + cause;
}

}  // namespace detail
}  // namespace hvd
