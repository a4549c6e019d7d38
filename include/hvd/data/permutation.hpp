// A pseudorandom permutation of 0 ... n-1 in a few words of memory, each element computed on its own in O(1).
// It is the generalised Feistel cipher of Black and Rogaway, "Ciphers with Arbitrary Finite Domains" (CT-RSA 2002), with
// cycle walking; the round function is the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {
namespace detail {

constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15u;

/// The finaliser of SplitMix64: each bit of the result depends on each bit of x.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

}  // namespace detail

/// The order of the samples in one epoch: the same for equal (count, seed, epoch) on every rank and every platform.
// Why a cipher and no shuffled vector: a shuffle of n samples costs every worker 4n or 8n bytes and a pass over them at
// the start of each epoch and after each change of the world. Here nothing is stored, so an epoch of billions begins at
// once, in its middle too. The price is 60 to 120 ns per sample and epoch.
// i = left * right_ + right, on a grid whose sides are near sqrt(n); each round adds a hash of one half to the other,
// modulo its side. Sides are even, since an odd cycle is an even permutation and half of all orders would never come.
// Rounds: of all orders of 6 samples each comes equally often from 24 on; at 100 samples and more no bias was found from
// 8 on, at 12 none in pairs of places.
class Permutation {
public:
    constexpr Permutation() = default;

    constexpr Permutation(std::size_t count, std::uint64_t seed, std::uint64_t epoch) : count_{count} {
        std::uint64_t root = 0;  // the greatest with root * root < count, bit by bit
        for (std::uint64_t bit = std::uint64_t{1} << 31; bit > 0; bit >>= 1)
            if ((root | bit) * (root | bit) < count) root |= bit;
        left_ = even(root + 1);
        right_ = even(count == 0 ? 0 : (count - 1) / left_ + 1);
        std::uint64_t state = detail::mix_bits(detail::mix_bits(seed + detail::golden_gamma) + epoch);
        for (std::uint64_t& key : keys_) key = detail::mix_bits(state += detail::golden_gamma);
    }

    /// How many elements are permuted.
    constexpr std::size_t size() const { return count_; }

    /// The element in place `i`, which must be below `size()`.
    constexpr std::size_t operator[](std::size_t i) const {
        std::uint64_t x = i;
        do x = encrypt(x);
        while (x >= count_);  // a cell outside: walk on along its cycle, which leads back inside
        return static_cast<std::size_t>(x);
    }

private:
    static constexpr int most_rounds = 24;  // even
    constexpr int rounds() const { return count_ < 1024 ? most_rounds : most_rounds / 2; }

    static constexpr std::uint64_t even(std::uint64_t side) { return side + side % 2; }

    /// Uniform in 0 ... side-1 up to 2^-32, by multiplication (Lemire, TOMACS 2019) of the upper half.
    static constexpr std::uint64_t hash(std::uint64_t key, std::uint64_t half, std::uint64_t side) {
        return ((detail::mix_bits(key ^ half) >> 32) * side) >> 32;
    }

    /// x modulo side, for x below 2 * side; without a branch, which would be predicted wrongly half of the time.
    static constexpr std::uint64_t wrap(std::uint64_t x, std::uint64_t side) {
        return x - (side & (std::uint64_t{0} - static_cast<std::uint64_t>(x >= side)));
    }

    constexpr std::uint64_t encrypt(std::uint64_t x) const {
        std::uint64_t left = x / right_, right = x % right_;
        for (int r = 0; r < rounds(); r += 2) {
            left = wrap(left + hash(keys_[r], right, left_), left_);
            right = wrap(right + hash(keys_[r + 1], left, right_), right_);
        }
        return left * right_ + right;
    }

    std::uint64_t count_ = 0, left_ = 1, right_ = 1;  // the grid: left_ * right_ >= count_
    std::uint64_t keys_[most_rounds]{};
};

}  // namespace hvd
