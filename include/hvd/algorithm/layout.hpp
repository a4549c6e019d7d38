// Layout: where the chunks of a schedule lie in the elements of a tensor.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <hvd/algorithm/schedule.hpp>

namespace hvd::detail {

/// Elements cut into blocks, and each block into the same number of segments; chunk b * segments + s is segment s of
/// block b. Blocks are equal (the first ones take one more) or as their offsets say.
class Layout {
public:
    Layout(std::size_t elements, std::size_t blocks, std::size_t segments = 1)
        : elements_{elements}, blocks_{blocks}, segments_{segments} {}

    /// `offsets` has one entry per block and one for the end.
    Layout(std::vector<std::size_t> offsets, std::size_t segments = 1)
        : elements_{offsets.back()}, blocks_{offsets.size() - 1}, segments_{segments}, offsets_{std::move(offsets)} {}

    /// The element at which a chunk begins; that of `blocks * segments` is the end.
    std::size_t begin(std::size_t chunk) const {
        if (segments_ == 1) return block_begin(chunk);
        const std::size_t block = chunk / segments_, segment = chunk % segments_;
        const std::size_t first = block_begin(block);
        if (segment == 0) return first;
        return first + split_begin(block_begin(block + 1) - first, segments_, segment);
    }

    std::size_t elements() const { return elements_; }
    std::size_t blocks() const { return blocks_; }

    Layout with_segments(std::size_t segments) const {
        Layout other = *this;
        other.segments_ = segments;
        return other;
    }

    /// The most elements that a chunk has.
    std::size_t most() const {
        std::size_t longest = 0;
        for (std::size_t b = 0; b < blocks_; ++b) {
            const std::size_t n = block_begin(b + 1) - block_begin(b);
            if (n > longest) longest = n;
            if (offsets_.empty()) break;  // the first is the longest
        }
        return (longest + segments_ - 1) / segments_;
    }

private:
    std::size_t block_begin(std::size_t block) const {
        return offsets_.empty() ? split_begin(elements_, blocks_, block) : offsets_[block];
    }

    std::size_t elements_, blocks_, segments_;
    std::vector<std::size_t> offsets_;
};

}  // namespace hvd::detail
