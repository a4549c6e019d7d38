// Hierarchical over devices: the library of the devices inside a node, messages of host memory between nodes.
// Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy", SysML 2019.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <hvd/algorithm/hierarchical.hpp>
#include <hvd/algorithm/native.hpp>
#include <hvd/comm/reduction.hpp>
#include <hvd/transport/device_transport.hpp>

namespace hvd::detail {

template <class A>
inline constexpr bool HasDeviceLevels = false;
template <class Inter>
inline constexpr bool HasDeviceLevels<Hierarchical<Native, Inter>> = true;

/// In blocks: all are reduced inside the node, one behind the other on the device; as soon as a block's share is in host
/// memory it goes between the nodes, and then back to the device and around the node, while the next ones follow. All ranks
/// of a node queue the same: first every block's reduction, then every block's gathering.
template <class T, class A, Scalar E, class Op>
class HierarchicalDeviceRun final : public Operation {
public:
    HierarchicalDeviceRun(const Communicator<T, A>& comm, Channel<T> channel, std::vector<DevicePiece<E>> pieces,
                          double factor, std::vector<typename T::Fence> after)
        : comm_{comm},
          state_{comm.algorithm_state()},
          inside_{state_.inside, channel.tag()},
          factor_{factor / (std::same_as<Op, Average> ? comm.size() : 1)},
          after_{std::move(after)},
          place_{static_cast<std::size_t>(inside_.rank())} {
        const std::size_t most = std::max<std::size_t>(comm.algorithm().block_bytes / sizeof(E), 1);
        for (const DevicePiece<E>& piece : pieces) {
            const std::size_t count = std::max<std::size_t>(1, (piece.n + most - 1) / most);
            for (std::size_t i = 0; i < count; ++i) add_block(piece, count, i);
        }
    }

    bool advance() override {
        // The reductions inside, in order.
        for (; reduced_ < blocks_.size(); ++reduced_) {
            if (!reducing_) reducing_ = reduce(blocks_[reduced_]);
            if (!reducing_->advance()) return false;
            reducing_.reset();
            if (own(blocks_[reduced_]) > 0) fetch(blocks_[reduced_]);
        }
        // Between the nodes, in order; blocks are gathered inside behind it, in order as well.
        for (; gathered_ < blocks_.size(); ++gathered_) {
            while (crossed_ <= gathered_)
                if (!cross(blocks_[crossed_])) return false;
            if (!gathering_) gathering_ = gather(blocks_[gathered_]);
            if (!gathering_->advance()) return false;
            gathering_.reset();
        }
        return true;
    }
    int waiting_for() const override {
        if (!crossing_) return -1;
        const int peer = crossing_->waiting_for();
        return peer < 0 ? -1 : state_.between_ranks[static_cast<std::size_t>(peer)];
    }

private:
    using Carrier = Carried<Op>;  // the average is in the factor

    struct Block {
        const E* in;
        E* out;
        std::vector<std::size_t> begin;  // of the shares, in elements; of ranks without one, the end
        typename T::HostBuffer buffer{};
        typename T::Fence fetched{}, returned{};
    };

    void add_block(const DevicePiece<E>& piece, std::size_t count, std::size_t i) {
        const std::size_t first = split_begin(piece.n, count, i), n = split_begin(piece.n, count, i + 1) - first;
        std::vector<std::size_t> begin(static_cast<std::size_t>(inside_.size()) + 1, n);
        for (std::size_t k = 0; k < state_.shares; ++k) begin[k] = split_begin(n, state_.shares, k);
        blocks_.push_back({piece.in + first, piece.out + first, std::move(begin)});
    }

    std::size_t own(const Block& b) const { return b.begin[place_ + 1] - b.begin[place_]; }
    E* share(const Block& b) const { return b.out + b.begin[place_]; }
    E* host(const Block& b) const { return reinterpret_cast<E*>(b.buffer.data()); }

    std::unique_ptr<Operation> reduce(const Block& b) {
        return state_.inside.template device_reduce_scatter<E, Carrier>(inside_, after_, b.in, share(b), b.begin,
                                                                        factor_);
    }

    void fetch(Block& b) {
        if (!state_.between || state_.between->size() == 1) return;
        b.buffer = comm_.transport().host_buffer(own(b) * sizeof(E));
        b.fetched = comm_.transport().copy(host(b), share(b), own(b) * sizeof(E), {state_.inside.launched()});
    }

    /// True when the block's share has been between the nodes.
    bool cross(Block& b) {
        if (b.buffer.data() != nullptr) {
            if (!crossing_) {
                if (!b.fetched.has_come()) return false;
                crossing_ = start_algorithm(comm_.algorithm().inter, Channel<T>{*state_.between, inside_.tag()},
                                            *state_.inter, std::span<E>{host(b), own(b)}, op_);
            }
            if (!crossing_->advance()) return false;
            crossing_.reset();
            b.returned = comm_.transport().copy(share(b), host(b), own(b) * sizeof(E));
        }
        ++crossed_;
        return true;
    }

    std::unique_ptr<Operation> gather(const Block& b) {
        std::vector<std::size_t> bytes;
        for (std::size_t at : b.begin) bytes.push_back(at * sizeof(E));
        return state_.inside.device_allgather(inside_, {b.returned}, share(b), reinterpret_cast<std::byte*>(b.out),
                                              std::move(bytes));
    }

    Communicator<T, A> comm_;
    typename A::template State<T>& state_;
    Channel<T> inside_;
    double factor_;
    std::vector<typename T::Fence> after_;
    std::size_t place_;
    Carrier op_{};
    std::vector<Block> blocks_;
    std::size_t reduced_ = 0, crossed_ = 0, gathered_ = 0;
    std::unique_ptr<Operation> reducing_, crossing_, gathering_;
};

}  // namespace hvd::detail
