// BasicMpi<true>: point-to-point messages of MPI, never waited for inside MPI. Needs MPI.
#pragma once

#ifdef HVD_WITH_MPI

#include <mpi.h>

#include <climits>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvd/transport/basic_mpi.hpp>
#include <hvd/transport/mpi_native.hpp>
#include <hvd/transport/mpi_process.hpp>
#include <hvd/transport/share.hpp>
#include <hvd/transport/transport.hpp>

namespace hvd {
namespace detail {

/// A communicator of ours, freed when nobody uses it any more.
class MpiCommunicator {
public:
    explicit MpiCommunicator(MPI_Comm comm) : comm_{comm} { MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN); }
    MpiCommunicator(const MpiCommunicator&) = delete;
    MpiCommunicator& operator=(const MpiCommunicator&) = delete;
    ~MpiCommunicator() {
        int finalised = 0;
        MPI_Finalized(&finalised);
        if (!finalised) MPI_Comm_free(&comm_);
    }
    MPI_Comm get() const { return comm_; }

private:
    MPI_Comm comm_;
};

/// A message under way. An abandoned receive is cancelled; an abandoned send is left to MPI.
class MpiMessage {
public:
    MpiMessage() = default;
    MpiMessage(MPI_Request request, bool is_receive) : request_{request}, is_receive_{is_receive} {}
    MpiMessage(MpiMessage&& other) noexcept
        : request_{std::exchange(other.request_, MPI_REQUEST_NULL)}, is_receive_{other.is_receive_} {}
    MpiMessage& operator=(MpiMessage&& other) noexcept {
        std::swap(request_, other.request_);
        std::swap(is_receive_, other.is_receive_);
        return *this;
    }
    ~MpiMessage() {
        if (request_ == MPI_REQUEST_NULL) return;
        int finalised = 0;
        MPI_Finalized(&finalised);
        if (finalised) return;
        if (is_receive_) MPI_Cancel(&request_);
        MPI_Request_free(&request_);
    }

    bool test() {
        if (request_ == MPI_REQUEST_NULL) return true;
        int done = 0;
        check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
        return done != 0;
    }

private:
    MPI_Request request_ = MPI_REQUEST_NULL;
    bool is_receive_ = false;
};

/// MPI counts in int; longer messages are one element of a type made for them.
class MpiBytes {
public:
    explicit MpiBytes(std::size_t bytes) {
        if (bytes <= INT_MAX) {
            count_ = static_cast<int>(bytes);
            return;
        }
        constexpr std::size_t block = std::size_t{1} << 30;
        MPI_Datatype blocks = MPI_DATATYPE_NULL;
        check_mpi(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &blocks), "MPI_Type_contiguous");
        const int lengths[2] = {static_cast<int>(bytes / block), static_cast<int>(bytes % block)};
        const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(bytes / block * block)};
        const MPI_Datatype types[2] = {blocks, MPI_BYTE};
        check_mpi(MPI_Type_create_struct(2, lengths, offsets, types, &type_), "MPI_Type_create_struct");
        check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
        MPI_Type_free(&blocks);
        count_ = 1;
        made_ = true;
    }
    MpiBytes(const MpiBytes&) = delete;
    MpiBytes& operator=(const MpiBytes&) = delete;
    ~MpiBytes() {
        if (made_) MPI_Type_free(&type_);  // a message under way keeps it alive
    }
    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

private:
    int count_ = 0;
    MPI_Datatype type_ = MPI_BYTE;
    bool made_ = false;
};

}  // namespace detail

template <>
class BasicMpi<true> {
public:
    static constexpr std::string_view name = "mpi";
    using memory_space = HostMemory;
    using Message = detail::MpiMessage;

    /// Collective over `comm`, which is duplicated and may be freed afterwards. Initialises MPI if nobody has.
    /// `ranks_per_node` > 0 pretends nodes of that many ranks; otherwise ranks that can share memory share a node.
    explicit BasicMpi(MPI_Comm comm, int ranks_per_node = 0) : worker_{detail::MpiProcess::instance().worker()} {
        MPI_Comm own = MPI_COMM_NULL;
        detail::check_mpi(MPI_Comm_dup(comm, &own), "MPI_Comm_dup");
        adopt(own);
        topology_ = discover();
        // A process bound to one core has it to itself.
        const int cores = detail::usable_cores();
        worker_->share_cores(topology_.local_size(), cores == 1 ? topology_.local_size() : cores);
        if (ranks_per_node > 0) topology_ = Topology::blocks(rank_, size_, ranks_per_node);
    }

    /// MPI_COMM_WORLD.
    BasicMpi() : BasicMpi{world(), 0} {}

    int rank() const { return rank_; }
    int size() const { return size_; }
    const Topology& topology() const { return topology_; }
    std::shared_ptr<detail::Worker> worker() const { return worker_; }
    /// The duplicate that hvd's messages travel on; for algorithms that call MPI themselves.
    MPI_Comm native() const { return comm_->get(); }
    static constexpr int thread_multiple = MPI_THREAD_MULTIPLE;
    /// What MPI_Query_thread says: MPI_THREAD_SINGLE ... MPI_THREAD_MULTIPLE.
    int thread_level() const { return detail::MpiProcess::instance().thread_level(); }

    Message send(int peer, int tag, const std::byte* data, std::size_t bytes) {
        const detail::MpiBytes size{bytes};
        MPI_Request request = MPI_REQUEST_NULL;
        detail::check_mpi(MPI_Isend(data, size.count(), size.type(), peer, tag, comm_->get(), &request), "MPI_Isend");
        return {request, false};
    }

    Message receive(int peer, int tag, std::byte* data, std::size_t bytes) {
        const detail::MpiBytes size{bytes};
        MPI_Request request = MPI_REQUEST_NULL;
        detail::check_mpi(MPI_Irecv(data, size.count(), size.type(), peer, tag, comm_->get(), &request), "MPI_Irecv");
        return {request, true};
    }

    bool test(Message& message) { return message.test(); }

    BasicMpi subgroup(std::span<const int> members, int id) {
        MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
        MPI_Comm made = MPI_COMM_NULL;
        detail::check_mpi(MPI_Comm_group(comm_->get(), &all), "MPI_Comm_group");
        detail::check_mpi(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &group),
                          "MPI_Group_incl");
        const int code = MPI_Comm_create_group(comm_->get(), group, id, &made);
        MPI_Group_free(&group);
        MPI_Group_free(&all);
        detail::check_mpi(code, "MPI_Comm_create_group");
        BasicMpi result{made, worker_};
        result.topology_ = topology_.restricted_to(members, result.rank_);
        return result;
    }

    /// Collective over ranks of one node: memory in common, part r of `sizes[r]` bytes.
    template <class Region = detail::SharedRegion>
    std::shared_ptr<Region> share(std::vector<std::size_t> sizes, std::string& reason) {
        return detail::share_between_processes(*this, sizes, reason);
    }

    /// MPI's own allreduce, for operations without state; calls pair up in their order on all ranks.
    template <class E, class Op>
        requires std::is_empty_v<Op> && std::default_initializable<Op> std::unique_ptr<detail::Operation>
        start_allreduce(std::span<E> data, const Op&) {
            return std::make_unique<detail::MpiAllreduce<E, Op>>(comm_->get(), data);
        }

private:
    BasicMpi(MPI_Comm own, std::shared_ptr<detail::Worker> worker) : worker_{std::move(worker)} { adopt(own); }

    static MPI_Comm world() {
        detail::MpiProcess::instance();
        return MPI_COMM_WORLD;
    }

    void adopt(MPI_Comm own) {
        comm_ = std::make_shared<detail::MpiCommunicator>(own);
        MPI_Comm_rank(own, &rank_);
        MPI_Comm_size(own, &size_);
    }

    Topology discover() const {
        MPI_Comm node = MPI_COMM_NULL;
        detail::check_mpi(MPI_Comm_split_type(comm_->get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
                          "MPI_Comm_split_type");
        // The least rank of a node, which is first in its communicator, names it.
        int least = rank_;
        detail::check_mpi(MPI_Bcast(&least, 1, MPI_INT, 0, node), "MPI_Bcast");
        MPI_Comm_free(&node);
        std::vector<int> nodes(static_cast<std::size_t>(size_));
        detail::check_mpi(MPI_Allgather(&least, 1, MPI_INT, nodes.data(), 1, MPI_INT, comm_->get()), "MPI_Allgather");
        return Topology{rank_, nodes};
    }

    std::shared_ptr<detail::MpiCommunicator> comm_;
    std::shared_ptr<detail::Worker> worker_;
    int rank_ = 0, size_ = 1;
    Topology topology_;
};

}  // namespace hvd

#endif
