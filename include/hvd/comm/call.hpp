// Call: what one rank asks of a collective. Equal on all ranks, or an error for all.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/core/op.hpp>
#include <hvd/core/scalar.hpp>
#include <hvd/core/tensor.hpp>

namespace hvd {

/// Factors applied before and after a reduction. Integers are multiplied in double and truncated toward zero.
struct ReduceOptions {
    double prescale = 1;
    double postscale = 1;
};

namespace detail {

/// Each part that ranks must have in common goes into the signature, which they compare, and into the words of the error
/// text, which are put together only when they differ.
class Call {
public:
    static Call of(std::string_view kind) {
        Call call;
        call.kind_ = kind;
        call.signature_ = hash_bytes(hash_begin, kind);
        return call;
    }

    Call& elements(const ScalarInfo& scalar) {
        scalar_ = scalar.name;
        return with(scalar.id);
    }
    Call& count(std::size_t n) {
        count_ = n;
        has_count_ = true;
        return with(std::uint64_t{n});
    }
    Call& trailing(const std::vector<std::size_t>& extents) {
        trailing_ = extents;
        with(std::uint64_t{extents.size()});
        for (std::size_t extent : extents) with(std::uint64_t{extent});
        return *this;
    }
    template <class Op>
    Call& operation() {
        op_ = op_name<Op>();
        return with(op_id<Op>);
    }
    Call& scaled(ReduceOptions options) {
        if (options.prescale == 1 && options.postscale == 1) return *this;
        options_ = options;
        return with(bits(options.prescale)).with(bits(options.postscale));
    }
    Call& root(int rank) {
        root_ = rank;
        has_root_ = true;
        return with(static_cast<std::uint64_t>(rank));
    }
    /// Something else that must be equal, and words for it.
    Call& with(std::uint64_t value) {
        signature_ = hash_value(signature_, value);
        return *this;
    }
    Call& words(std::string text) {
        words_ = std::move(text);
        return *this;
    }
    /// The sentence that says why the call is wrong on this rank alone; an empty one changes nothing, a second neither.
    Call& wrong(std::string sentence) {
        if (error_.empty()) error_ = std::move(sentence);
        return *this;
    }

    std::uint64_t signature() const { return signature_; }
    const std::string& error() const { return error_; }

    /// "allreduce of 3 float with sum"
    std::string text() const {
        std::string text{kind_};
        if (!words_.empty()) text += " " + words_;
        if (has_count_ || !scalar_.empty()) text += " of";
        if (has_count_) text += " " + std::to_string(count_);
        if (!trailing_.empty()) text += has_count_ ? " rows" : " rows of";
        for (std::size_t i = 0; i < trailing_.size(); ++i)
            text += (i == 0 ? " [" : ", ") + std::to_string(trailing_[i]);
        if (!trailing_.empty()) text += "]";
        if (!scalar_.empty()) text += " " + std::string{scalar_};
        if (!op_.empty()) text += " with " + std::string{op_};
        if (options_.prescale != 1) text += ", prescale " + std::to_string(options_.prescale);
        if (options_.postscale != 1) text += ", postscale " + std::to_string(options_.postscale);
        if (has_root_) text += ", root " + std::to_string(root_);
        return text;
    }

private:
    static std::uint64_t bits(double value) {
        std::uint64_t result;
        static_assert(sizeof result == sizeof value);
        std::memcpy(&result, &value, sizeof result);
        return result;
    }

    std::uint64_t signature_ = hash_begin;
    std::string_view kind_, scalar_, op_;
    std::size_t count_ = 0;
    int root_ = 0;
    bool has_count_ = false, has_root_ = false;
    ReduceOptions options_;
    std::vector<std::size_t> trailing_;
    std::string words_, error_;
};

/// The sentence about a root that does not exist, or nothing.
inline std::string root_error(std::string_view name, int root, int rank, int size) {
    if (root >= 0 && root < size) return {};
    return located(
        std::string{name}, rank, size,
        "there is no rank " + std::to_string(root) + " to be the root; give one from 0 to " + std::to_string(size - 1));
}

}  // namespace detail
}  // namespace hvd
