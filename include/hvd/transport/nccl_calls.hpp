// The collectives of NCCL on device memory, as what an NcclRun queues. Needs NCCL.
#pragma once

#ifdef HVD_WITH_NCCL

#include <nccl.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <hvd/transport/device_transport.hpp>
#include <hvd/transport/nccl_run.hpp>
#include <hvd/transport/nccl_types.hpp>

namespace hvd::detail {

/// A number of type E in the words that NCCL multiplies with.
template <class E>
auto nccl_word(double factor) {
    if constexpr (std::same_as<E, float16> || std::same_as<E, bfloat16>)
        return std::bit_cast<std::uint16_t>(E{static_cast<float>(factor)});
    else if constexpr (nccl_element<E>().type == ncclFloat64) return factor;
    else return static_cast<float>(factor);
}

/// NCCL's operation for Op with all elements multiplied by `factor` before it, which only sums and averages may be.
template <class E, class Op>
ncclRedOp_t nccl_scaled(NcclGroup& group, double factor) {
    if (factor == 1) return nccl_operation<Op>();
    if constexpr (std::same_as<Op, Average>) factor /= group.size();
    return group.scaled_sum(nccl_element<E>().type, factor, nccl_word<E>(factor));
}

/// Every piece reduced over all ranks, as one group.
template <class E, class Op>
NcclCalls nccl_allreduce(std::shared_ptr<NcclGroup> group, std::vector<DevicePiece<E>> pieces, double factor) {
    return [group = std::move(group), pieces = std::move(pieces), factor](ncclComm_t comm, cudaStream_t stream,
                                                                          const auto& note) {
        constexpr NcclElement element = nccl_element<E>();
        const ncclRedOp_t op = nccl_scaled<E, Op>(*group, factor);
        for (const auto& piece : pieces)
            if (piece.n > 0)
                note(ncclAllReduce(piece.in, piece.out, piece.n * element.words, element.type, op, comm, stream));
    };
}

/// Rank r gets the elements `begin[r]` to `begin[r + 1]` of the reduction.
template <class E, class Op>
NcclCalls nccl_reduce_scatter(std::shared_ptr<NcclGroup> group, const E* in, E* out, std::vector<std::size_t> begin,
                              double factor) {
    return [=, group = std::move(group), begin = std::move(begin)](ncclComm_t comm, cudaStream_t stream,
                                                                   const auto& note) {
        constexpr NcclElement element = nccl_element<E>();
        const ncclRedOp_t op = nccl_scaled<E, Op>(*group, factor);
        const std::size_t share = begin[1] - begin[0];
        bool is_even = true;
        for (std::size_t r = 0; r + 1 < begin.size(); ++r) is_even = is_even && begin[r + 1] - begin[r] == share;
        if (is_even) {
            if (share > 0) note(ncclReduceScatter(in, out, share * element.words, element.type, op, comm, stream));
            return;
        }
        for (std::size_t r = 0; r + 1 < begin.size(); ++r) {
            const std::size_t n = begin[r + 1] - begin[r];
            if (n > 0)
                note(ncclReduce(in + begin[r], out, n * element.words, element.type, op, static_cast<int>(r), comm,
                                stream));
        }
    };
}

template <class E, class Op>
NcclCalls nccl_reduce(std::shared_ptr<NcclGroup> group, DevicePiece<E> piece, int root, double factor) {
    return [=, group = std::move(group)](ncclComm_t comm, cudaStream_t stream, const auto& note) {
        constexpr NcclElement element = nccl_element<E>();
        const ncclRedOp_t op = nccl_scaled<E, Op>(*group, factor);
        if (piece.n > 0)
            note(ncclReduce(piece.in, piece.out, piece.n * element.words, element.type, op, root, comm, stream));
    };
}

inline NcclCalls nccl_broadcast(void* data, std::size_t bytes, int root) {
    return [=](ncclComm_t comm, cudaStream_t stream, const auto& note) {
        if (bytes > 0) note(ncclBroadcast(data, data, bytes, ncclUint8, root, comm, stream));
    };
}

/// Rank r's bytes from `in` go to `begin[r]` up to `begin[r + 1]` in everybody's `out`.
inline NcclCalls nccl_allgather(const void* in, std::byte* out, std::vector<std::size_t> begin) {
    return [=, begin = std::move(begin)](ncclComm_t comm, cudaStream_t stream, const auto& note) {
        const std::size_t share = begin[1] - begin[0];
        bool is_even = true;
        for (std::size_t r = 0; r + 1 < begin.size(); ++r) is_even = is_even && begin[r + 1] - begin[r] == share;
        if (is_even) {
            if (share > 0) note(ncclAllGather(in, out, share, ncclUint8, comm, stream));
            return;
        }
        for (std::size_t r = 0; r + 1 < begin.size(); ++r)
            if (begin[r + 1] > begin[r])
                note(ncclBroadcast(in, out + begin[r], begin[r + 1] - begin[r], ncclUint8, static_cast<int>(r), comm,
                                   stream));
    };
}

/// Messages to and from the others, at most one each way and peer.
inline NcclCalls nccl_exchange(std::vector<DeviceParcel> sends, std::vector<DeviceParcel> receives) {
    return [sends = std::move(sends), receives = std::move(receives)](ncclComm_t comm, cudaStream_t stream,
                                                                      const auto& note) {
        for (const DeviceParcel& p : sends)
            if (p.bytes > 0) note(ncclSend(p.data, p.bytes, ncclUint8, p.peer, comm, stream));
        for (const DeviceParcel& p : receives)
            if (p.bytes > 0) note(ncclRecv(p.data, p.bytes, ncclUint8, p.peer, comm, stream));
    };
}

}  // namespace hvd::detail

#endif
