// Topology: which ranks share a node, and what follows from it.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hvd {

/// The nodes of a communicator. Node numbers count from 0 in the order in which ranks first name them.
class Topology {
public:
    Topology() = default;

    /// `node_of[r]` is any number that tells rank r's node from others.
    template <class Nodes>
    Topology(int rank, const Nodes& node_of) : rank_{rank}, node_of_(node_of.size()) {
        std::vector<int> names;
        for (std::size_t r = 0; r < node_of.size(); ++r) {
            std::size_t node = 0;
            while (node < names.size() && names[node] != node_of[r]) ++node;
            if (node == names.size()) names.push_back(node_of[r]);
            node_of_[r] = static_cast<int>(node);
        }
        sizes_.assign(names.size(), 0);
        std::vector<int> local(node_of_.size());
        for (std::size_t r = 0; r < node_of_.size(); ++r) local[r] = sizes_[static_cast<std::size_t>(node_of_[r])]++;
        local_rank_ = local[static_cast<std::size_t>(rank)];
        for (std::size_t r = 0; r < local.size(); ++r) {
            if (local[r] != local_rank_) continue;
            if (static_cast<int>(r) == rank) cross_rank_ = cross_size_;
            ++cross_size_;
        }
    }

    int size() const { return static_cast<int>(node_of_.size()); }
    int node() const { return node_of_[static_cast<std::size_t>(rank_)]; }
    int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
    int nodes() const { return static_cast<int>(sizes_.size()); }
    int node_size(int node) const { return sizes_[static_cast<std::size_t>(node)]; }
    int local_rank() const { return local_rank_; }
    int local_size() const { return node_size(node()); }
    int cross_rank() const { return cross_rank_; }
    /// The number of nodes that have this local rank.
    int cross_size() const { return cross_size_; }
    /// Every node has the same number of ranks.
    bool is_homogeneous() const {
        for (int size : sizes_)
            if (size != sizes_[0]) return false;
        return true;
    }
    int smallest_node() const {
        int smallest = sizes_[0];
        for (int size : sizes_) smallest = size < smallest ? size : smallest;
        return smallest;
    }

    /// The ranks on the node of this rank, in order.
    std::vector<int> ranks_on_my_node() const {
        std::vector<int> ranks;
        for (int r = 0; r < size(); ++r)
            if (node_of(r) == node()) ranks.push_back(r);
        return ranks;
    }

    /// The ranks that have this rank's place on their nodes, in order.
    std::vector<int> ranks_with_my_place() const {
        std::vector<int> ranks, seen(sizes_.size(), 0);
        for (int r = 0; r < size(); ++r)
            if (seen[static_cast<std::size_t>(node_of(r))]++ == local_rank_) ranks.push_back(r);
        return ranks;
    }

    /// The same nodes seen by a group of these ranks, of which `members[rank]` is this one.
    template <class Nodes = std::vector<int>>
    Topology restricted_to(std::span<const int> members, int rank) const {
        Nodes nodes(members.size());
        for (std::size_t i = 0; i < members.size(); ++i) nodes[i] = node_of(members[i]);
        return Topology{rank, nodes};
    }

    /// `count` ranks on pretended nodes of `ranks_per_node` each.
    template <class Nodes = std::vector<int>>
    static Topology blocks(int rank, int count, int ranks_per_node) {
        Nodes nodes(static_cast<std::size_t>(count));
        for (int r = 0; r < count; ++r) nodes[static_cast<std::size_t>(r)] = r / ranks_per_node;
        return Topology{rank, nodes};
    }

private:
    int rank_ = 0;
    std::vector<int> node_of_;
    std::vector<int> sizes_;
    int local_rank_ = 0, cross_rank_ = 0, cross_size_ = 0;
};

}  // namespace hvd
