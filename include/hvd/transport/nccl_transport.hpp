// NcclTransport: what hvd::Nccl is: host messages of the bootstrap transport, and collectives on device memory. Needs NCCL.
#pragma once

#ifdef HVD_WITH_NCCL

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/core/memory.hpp>
#include <hvd/transport/nccl_calls.hpp>
#include <hvd/transport/nccl_run.hpp>
#include <hvd/transport/transport.hpp>

namespace hvd {
namespace device {
class Kernels;
}

/// How hvd::Nccl uses the devices.
struct NcclOptions {
    /// The device of this rank; -1: by its place among the ranks of this machine.
    int device = -1;
    /// The stream on which this rank computes: operations run behind what it was given before the call, and what it is given
    /// after the call runs behind them.
    cudaStream_t stream = nullptr;
    /// What packs, scales and casts on the device: `&hvd::device::cuda_kernels()` of a unit compiled by nvcc. Without, NCCL
    /// takes the tensors as they are, and calls that cannot do without say so.
    const device::Kernels* kernels = nullptr;
};

namespace detail {

/// The place of this rank among those of its machine, whatever nodes are pretended.
template <class B>
int place_on_machine(const B& bootstrap) {
    if constexpr (requires { bootstrap.machine_rank(); }) return bootstrap.machine_rank();
    else return bootstrap.topology().local_rank();
}

template <class B>
class NcclTransport {
public:
    static constexpr std::string_view name = "nccl";
    using memory_space = DeviceMemory;
    using bootstrap_type = B;
    using Message = typename B::Message;
    static constexpr bool has_common_addresses = detail::has_common_addresses<B>();

    /// Collective over the ranks of `bootstrap`, each of which needs a device of its own. Throws UsageError when there are too
    /// few. NCCL itself begins with the first operation.
    explicit NcclTransport(B bootstrap, NcclOptions options = {})
        : bootstrap_{std::move(bootstrap)}, options_{options}, devices_{std::make_shared<Devices>(choose())} {}

    int rank() const { return bootstrap_.rank(); }
    int size() const { return bootstrap_.size(); }
    const Topology& topology() const { return bootstrap_.topology(); }
    std::shared_ptr<Worker> worker() const { return bootstrap_.worker(); }
    Message send(int peer, int tag, const std::byte* data, std::size_t bytes) {
        return bootstrap_.send(peer, tag, data, bytes);
    }
    Message receive(int peer, int tag, std::byte* data, std::size_t bytes) {
        return bootstrap_.receive(peer, tag, data, bytes);
    }
    bool test(Message& message) { return bootstrap_.test(message); }
    std::shared_ptr<SharedRegion> share(std::vector<std::size_t> sizes, std::string& reason) requires SharesMemory<B> {
        return bootstrap_.share(std::move(sizes), reason);
    }

    B& bootstrap() { return bootstrap_; }
    const NcclOptions& options() const { return options_; }
    int device() const { return devices_->device; }
    /// The calling thread uses this rank's device while the guard lives.
    device::Guard device_guard() const { return device::Guard{device()}; }
    cudaStream_t stream() const { return options_.stream; }
    device::Cache<device::InDevice>& device_memory() const { return *devices_->memory; }

    using Fence = device::Event;
    using Fences = std::vector<Fence>;
    /// What this rank's own stream has been given so far.
    Fence fence() const { return group_->point_of(options_.stream); }
    /// What the rank's own stream is given from now on runs behind all that was launched.
    void join() const {
        if (!group_->is_begun()) return;
        const device::Guard guard{device()};
        group_->point_of(group_->stream()).hold_back(options_.stream);
    }
    /// Done when all that was launched has run on the device; throws what NCCL met.
    std::unique_ptr<Operation> finish() const { return std::make_unique<NcclFinish>(group_); }

    /// NCCL reduces such elements so, with all of them multiplied by `factor`.
    template <class E, class Op>
    static constexpr bool can_reduce(double factor) {
        if constexpr (!nccl_reduces<E, Op>()) return false;
        else return factor == 1 || (nccl_element<E>().is_floating && !std::same_as<Op, Product>);
    }

    // All of these are collective, take device memory, and are put in order by the caller. `Self`: of Nccl.
    template <class E, class Op, class Self>
    std::unique_ptr<Operation> device_allreduce(const Channel<Self>& channel, Fences after,
                                                std::vector<DevicePiece<E>> pieces, double factor) const {
        return run(channel, "allreduce", std::move(after), nccl_allreduce<E, Op>(group_, std::move(pieces), factor));
    }
    template <class E, class Op, class Self>
    std::unique_ptr<Operation> device_reduce_scatter(const Channel<Self>& channel, Fences after, const E* in, E* out,
                                                     std::vector<std::size_t> begin, double factor) const {
        return run(channel, "reduce_scatter", std::move(after),
                   nccl_reduce_scatter<E, Op>(group_, in, out, std::move(begin), factor));
    }
    template <class E, class Op, class Self>
    std::unique_ptr<Operation> device_reduce(const Channel<Self>& channel, Fences after, DevicePiece<E> piece, int root,
                                             double factor) const {
        return run(channel, "reduce", std::move(after), nccl_reduce<E, Op>(group_, piece, root, factor));
    }
    template <class Self>
    std::unique_ptr<Operation> device_broadcast(const Channel<Self>& channel, Fences after, void* data,
                                                std::size_t bytes, int root) const {
        return run(channel, "broadcast", std::move(after), nccl_broadcast(data, bytes, root));
    }
    template <class Self>
    std::unique_ptr<Operation> device_allgather(const Channel<Self>& channel, Fences after, const void* in,
                                                std::byte* out, std::vector<std::size_t> begin) const {
        return run(channel, "allgather", std::move(after), nccl_allgather(in, out, std::move(begin)));
    }
    template <class Self>
    std::unique_ptr<Operation> device_exchange(const Channel<Self>& channel, Fences after, std::string_view call,
                                               std::vector<DeviceParcel> sends,
                                               std::vector<DeviceParcel> receives) const {
        return run(channel, std::string{call}, std::move(after), nccl_exchange(std::move(sends), std::move(receives)));
    }

    using HostBuffer = device::PinnedBuffer;
    /// Host memory which the device reaches fast.
    HostBuffer host_buffer(std::size_t bytes) const { return devices_->pinned->take(bytes); }
    /// Queues a copy between host and device memory, or on the device. The event: it is done.
    Fence copy(void* to, const void* from, std::size_t bytes, const Fences& after = {}) const {
        const device::Guard guard{device()};
        for (const Fence& fence : after) fence.hold_back(devices_->copies->get());
        if (bytes > 0)
            device::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, devices_->copies->get()),
                          "cudaMemcpyAsync");
        return group_->point_of(devices_->copies->get());
    }
    /// Where the device is with all that NCCL was given.
    Fence launched() const { return group_->point_of(group_->stream()); }

protected:
    NcclTransport part(std::span<const int> members, int id) {
        return NcclTransport{bootstrap_.subgroup(members, id), options_, devices_};
    }

private:
    struct Devices {
        int device = 0;
        std::shared_ptr<device::Cache<device::InDevice>> memory =
            std::make_shared<device::Cache<device::InDevice>>(device);
        std::shared_ptr<device::Cache<device::Pinned>> pinned = std::make_shared<device::Cache<device::Pinned>>(device);
        std::unique_ptr<device::Stream> copies;
        explicit Devices(int number) : device{number} {
            const device::Guard guard{number};
            copies = std::make_unique<device::Stream>();
        }
    };

    NcclTransport(B bootstrap, NcclOptions options, std::shared_ptr<Devices> devices)
        : bootstrap_{std::move(bootstrap)}, options_{options}, devices_{std::move(devices)} {}

    template <class Self>
    std::unique_ptr<Operation> run(const Channel<Self>& channel, std::string call, Fences after,
                                   NcclCalls calls) const {
        return std::make_unique<NcclRun<Self>>(group_, channel, std::move(call), std::move(after), std::move(calls));
    }

    int choose() const {
        const int devices = device::count();
        const auto refuse = [this](const std::string& cause) {
            throw UsageError{located("hvd::Nccl", rank(), size(), cause)};
        };
        const int place = place_on_machine(bootstrap_);
        const int chosen = options_.device >= 0 ? options_.device : place;
        if (devices == 0)
            refuse(
                "there is no CUDA device that this process can use; look at nvidia-smi, or launch on hvd::Local or "
                "hvd::Mpi");
        if (options_.device >= devices)
            refuse("there is no device " + std::to_string(chosen) + "; give one from 0 to " +
                   std::to_string(devices - 1));
        if (chosen >= devices)
            refuse("this is the " + std::to_string(place + 1) + ". rank on a machine with " + std::to_string(devices) +
                   (devices == 1 ? " device" : " devices") + "; start one rank per device");
        return chosen;
    }

    B bootstrap_;
    NcclOptions options_;
    std::shared_ptr<Devices> devices_;
    std::shared_ptr<NcclGroup> group_ =
        std::make_shared<NcclGroup>(devices_->device, bootstrap_.rank(), bootstrap_.size(), bootstrap_.worker());
};

}  // namespace detail
}  // namespace hvd

#endif
