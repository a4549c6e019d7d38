// Copies bytes and sums them on the way, so that large state is read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hvd::detail {

/// The checksum of blocks of 64 bytes: sums of words and sums of these sums in eight lanes, so that order matters.
class Checksum {
public:
    static constexpr std::size_t block = 64;
    /// Up to a whole block.
    static constexpr std::size_t rounded(std::size_t bytes) { return (bytes + block - 1) / block * block; }

    /// Whole blocks. `to` may be null: then they are only summed. Many at once pass by the cache, which training needs.
    void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
        bytes_ += bytes;
        if (to != nullptr && bytes >= large && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
            stream(to, from, bytes);
            return;
        }
        if (to != nullptr) std::memcpy(to, from, bytes);
        add(from, bytes);
    }

    std::uint64_t value() const {
        std::uint64_t v = mix(1, bytes_);
        for (std::size_t i = 0; i < lanes; ++i) v = mix(mix(v, first_[i]), second_[i]);
        return v;
    }

    static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
        a = (a ^ b) * 0x9e3779b97f4a7c15u;
        return a ^ (a >> 29);
    }

private:
    static constexpr std::size_t large = std::size_t{256} << 10, lanes = 8;

    void add(const std::byte* from, std::size_t bytes) {
        std::uint64_t words[lanes];
        for (std::size_t at = 0; at < bytes; at += block) {
            std::memcpy(words, from + at, block);
            for (std::size_t i = 0; i < lanes; ++i) {
                first_[i] += words[i];
                second_[i] += first_[i];
            }
        }
    }

    void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
        __m128i first[4], second[4];
        std::memcpy(first, first_, sizeof first_);
        std::memcpy(second, second_, sizeof second_);
        for (std::size_t at = 0; at < bytes; at += block) {
            const auto* in = reinterpret_cast<const __m128i*>(from + at);
            auto* out = reinterpret_cast<__m128i*>(to + at);
            for (int i = 0; i < 4; ++i) {
                const __m128i words = _mm_loadu_si128(in + i);
                first[i] = _mm_add_epi64(first[i], words);
                second[i] = _mm_add_epi64(second[i], first[i]);
                _mm_stream_si128(out + i, words);
            }
        }
        _mm_sfence();
        std::memcpy(first_, first, sizeof first_);
        std::memcpy(second_, second, sizeof second_);
#else
        std::memcpy(to, from, bytes);
        add(from, bytes);
#endif
    }

    std::uint64_t first_[lanes] = {}, second_[lanes] = {};
    std::uint64_t bytes_ = 0;
};

/// Writes pieces one behind the other and sums them; each piece begins at a multiple of a block.
class CheckedWriter {
public:
    explicit CheckedWriter(std::byte* to) : to_{to} {}

    /// More bytes of the piece in hand.
    void put(const std::byte* from, std::size_t bytes) {
        if (pending_ > 0) {
            const std::size_t n = bytes < Checksum::block - pending_ ? bytes : Checksum::block - pending_;
            std::memcpy(last_ + pending_, from, n);
            pending_ += n;
            from += n;
            bytes -= n;
            if (pending_ < Checksum::block) return;
            flush();
        }
        const std::size_t whole = bytes / Checksum::block * Checksum::block;
        sum_.copy(to_, from, whole);
        to_ += whole;
        pending_ = bytes - whole;
        if (pending_ > 0) std::memcpy(last_, from + whole, pending_);
    }

    /// The piece is at its end; the rest of its last block is zero.
    void end_piece() {
        if (pending_ == 0) return;
        std::memset(last_ + pending_, 0, Checksum::block - pending_);
        flush();
    }

    std::uint64_t sum() const { return sum_.value(); }
    const std::byte* end() const { return to_; }

private:
    void flush() {
        sum_.copy(to_, last_, Checksum::block);
        to_ += Checksum::block;
        pending_ = 0;
    }

    std::byte* to_;
    std::byte last_[Checksum::block];
    std::size_t pending_ = 0;
    Checksum sum_;
};

}  // namespace hvd::detail
