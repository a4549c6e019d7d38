// The peers and steps of binomial trees and of the double binary tree.
#pragma once

#include <hvd/algorithm/schedule.hpp>

namespace hvd {

/// Reduce to a root along a binomial tree, broadcast from it, or both. The whole tensor is one chunk.
struct BinomialSchedule {
    enum class Part { Allreduce, Reduce, Broadcast };

    int rank, size;
    int root = 0;
    Part part = Part::Allreduce;

    constexpr std::size_t chunks() const { return 1; }

    /// Children differ from a rank by one of the bits below its lowest.
    constexpr int children() const {
        int count = 0;
        for (int bit = 1; bit < size && (place() & bit) == 0; bit <<= 1)
            if (place() + bit < size) ++count;
        return count;
    }

    constexpr std::size_t steps() const {
        const auto one_way = static_cast<std::size_t>(children() + (place() == 0 ? 0 : 1));
        return part == Part::Allreduce ? 2 * one_way : one_way;
    }

    constexpr Step step(std::size_t index) const {
        const Chunks all{0, 1};
        const int i = static_cast<int>(index), n = children(), up = place() == 0 ? 0 : 1;
        const bool reduces = part != Part::Broadcast && i < n + up;
        if (reduces) {  // near children first, then to the parent
            if (i < n) return {-1, {}, at(place() + (1 << i)), all, true};
            return {parent(), all, -1, {}, false};
        }
        const int j = part == Part::Broadcast ? i : i - n - up;
        if (j < up) return {-1, {}, parent(), all, false};
        return {at(place() + (1 << (n - 1 - (j - up)))), all, -1, {}, false};  // far children, with more below, first
    }

private:
    constexpr int place() const { return (rank - root + size) % size; }
    constexpr int at(int p) const { return (p + root) % size; }
    constexpr int parent() const { return at(place() & (place() - 1)); }
};

/// A rank's neighbours in a tree; -1 for none.
struct TreeLinks {
    int parent = -1;
    int child[2] = {-1, -1};
};

/// A binary tree over all ranks in which odd places are leaves: place 0 is the root and has one child; elsewhere the
/// lowest set bit is the height.
constexpr TreeLinks binary_tree(int place, int size) {
    TreeLinks links;
    int bit = 1;
    while (bit < size && (place & bit) == 0) bit <<= 1;
    if (place == 0) {
        if (size > 1) links.child[0] = bit >> 1;  // the largest power of two below size
        return links;
    }
    links.parent = (place ^ bit) | (bit << 1);
    if (links.parent >= size) links.parent = place ^ bit;
    if (bit > 1) {
        links.child[0] = place - bit / 2;
        int half = bit / 2;
        while (half > 0 && place + half >= size) half >>= 1;
        if (half > 0) links.child[1] = place + half;
    }
    return links;
}

/// Tree 0 is `binary_tree`, tree 1 the same with ranks renamed such that inner ranks of one are leaves of the other:
/// mirrored when `size` is even, shifted by one when it is odd.
constexpr TreeLinks double_tree(int which, int rank, int size) {
    if (which == 0) return binary_tree(rank, size);
    const bool mirror = size % 2 == 0;
    auto rename = [&](int r, int shift) {
        if (r < 0) return -1;
        return mirror ? size - 1 - r : (r + shift + size) % size;
    };
    const TreeLinks there = binary_tree(rename(rank, -1), size);
    return {rename(there.parent, 1), {rename(there.child[0], 1), rename(there.child[1], 1)}};
}

/// Allreduce over both trees, half of the data on each. Segment s climbs in slot s and comes down in slot s + delay, by
/// which time it has reached the root, so that all levels of both trees are busy.
struct DoubleTreeSchedule {
    int rank, size;
    std::size_t segments;  // of each half
    std::size_t delay = static_cast<std::size_t>(2 * detail::ceil_log2(size));
    TreeLinks tree[2] = {double_tree(0, rank, size), double_tree(1, rank, size)};

    constexpr std::size_t chunks() const { return 2 * segments; }
    constexpr std::size_t steps() const { return (segments + delay) * 2 * moves; }

    constexpr Step step(std::size_t i) const {
        const std::size_t move = i % moves, which = i / moves % 2, slot = i / moves / 2;
        const TreeLinks& links = tree[which];
        const bool up = move < 3;
        if (up ? slot >= segments : slot < delay) return {};
        const Chunks chunk{which * segments + (up ? slot : slot - delay), 1};
        switch (move) {
            case 0:
                return {-1, {}, links.child[0], chunk, true};
            case 1:
                return {-1, {}, links.child[1], chunk, true};
            case 2:
                return {links.parent, chunk, -1, {}, false};
            case 3:
                return {-1, {}, links.parent, chunk, false};
            case 4:
                return {links.child[0], chunk, -1, {}, false};
            default:
                return {links.child[1], chunk, -1, {}, false};
        }
    }

private:
    static constexpr std::size_t moves = 6;
};

}  // namespace hvd
