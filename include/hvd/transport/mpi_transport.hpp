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
#include <hvd/transport/mpi_message.hpp>
#include <hvd/transport/mpi_native.hpp>
#include <hvd/transport/mpi_process.hpp>
#include <hvd/transport/share.hpp>
#include <hvd/transport/transport.hpp>

namespace hvd {

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
        machine_rank_ = topology_.local_rank();
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
    /// Place among the ranks of this machine, whatever nodes are pretended.
    int machine_rank() const { return machine_rank_; }
    std::shared_ptr<detail::Worker> worker() const { return worker_; }
    /// The duplicate that hvd's messages travel on; for algorithms that call MPI themselves.
    MPI_Comm native() const { return comm_->get(); }
    static constexpr int thread_multiple = MPI_THREAD_MULTIPLE;
    /// What MPI_Query_thread says: MPI_THREAD_SINGLE ... MPI_THREAD_MULTIPLE.
    int thread_level() const { return detail::MpiProcess::instance().thread_level(); }

    Message send(int peer, int tag, const std::byte* data, std::size_t bytes) {
        return Message::send(comm_->get(), peer, tag, data, bytes);
    }

    Message receive(int peer, int tag, std::byte* data, std::size_t bytes) {
        return Message::receive(comm_->get(), peer, tag, data, bytes);
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
        result.machine_rank_ = machine_rank_;
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
    BasicMpi(MPI_Comm own, std::shared_ptr<detail::MpiWorker> worker) : worker_{std::move(worker)} { adopt(own); }

    static MPI_Comm world() { return detail::MpiProcess::instance().world(); }

    void adopt(MPI_Comm own) {
        comm_ = std::make_shared<detail::MpiCommunicator>(own, worker_);
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
    std::shared_ptr<detail::MpiWorker> worker_;
    int rank_ = 0, size_ = 1, machine_rank_ = 0;
    Topology topology_;
};

}  // namespace hvd

#endif
