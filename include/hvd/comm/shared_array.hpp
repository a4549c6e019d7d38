// SharedArray: elements in memory that the ranks of a node have in common, where Direct reduces them without a copy.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/comm/agreement.hpp>
#include <hvd/core/scalar.hpp>

namespace hvd {

/// An owning range of `size()` elements, zero at first; each rank has its own. Made by `Communicator::allocate_shared`.
template <class E>
class SharedArray {
public:
    using value_type = E;
    using iterator = E*;
    using const_iterator = const E*;

    SharedArray() = default;
    SharedArray(std::shared_ptr<void> owner, E* data, std::size_t size)
        : owner_{std::move(owner)}, data_{data}, size_{size} {}

    E* data() { return data_; }
    const E* data() const { return data_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    E* begin() { return data_; }
    E* end() { return data_ + size_; }
    const E* begin() const { return data_; }
    const E* end() const { return data_ + size_; }
    E& operator[](std::size_t i) { return data_[i]; }
    const E& operator[](std::size_t i) const { return data_[i]; }

private:
    std::shared_ptr<void> owner_;
    E* data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {

/// `bytes` of this rank in a region of its node, and what keeps them. Collective; all ranks have come.
template <Transport T>
std::pair<std::shared_ptr<void>, std::byte*> allocate_on_node(Context<T>& context, Channel<T> channel,
                                                              std::size_t bytes) {
    if constexpr (SharesMemory<T>) {
        const Topology& nodes = context.transport.topology();
        if (nodes.local_size() > 1) {
            std::optional<T> node;
            if (nodes.nodes() > 1) node.emplace(context.transport.subgroup(nodes.ranks_on_my_node(), channel.tag()));
            T& transport = node ? *node : context.transport;
            std::vector<std::size_t> sizes(static_cast<std::size_t>(transport.size()));
            const auto gather = gather_everywhere(Channel<T>{transport, setup_tag}, &bytes, sizes.data(), sizeof bytes);
            wait_for(*gather, channel, "allocate_shared");
            std::string reason;
            const auto region = transport.share(std::move(sizes), reason);
            if (!region) throw TransportError{reason};
            context.regions.push_back(region);
            return {region, region->part(transport.rank())};
        }
    }
    const auto block = std::make_shared<Block>(bytes > 0 ? bytes : 1);
    std::memset(block->data(), 0, block->size());
    context.regions.push_back(block);
    return {block, block->data()};
}

}  // namespace detail
}  // namespace hvd
