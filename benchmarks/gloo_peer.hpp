// Gloo as a peer, where it is installed: its allreduce over TCP on the loopback interface, between the same ranks.
#pragma once

#include <cstddef>
#include <stdexcept>

#ifdef HVD_BENCHMARK_GLOO
#include <filesystem>
#include <memory>
#include <string>

#include <stdlib.h>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <hvd/hvd.hpp>
#endif

namespace bench {

#ifdef HVD_BENCHMARK_GLOO

class GlooPeer {
public:
    /// Collective. The ranks find each other through files in a folder that is gone afterwards.
    template <class World>
    explicit GlooPeer(World& world) {
        std::string folder = (std::filesystem::temp_directory_path() / "hvd-gloo-XXXXXX").string();
        if (world.rank() == 0 && ::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make " + folder);
        hvd::broadcast_object(world, folder, 0);
        try {
            connect(world.rank(), world.size(), folder);
            hvd::barrier(world);
        } catch (...) {
            std::filesystem::remove_all(folder);
            throw;
        }
        if (world.rank() == 0) std::filesystem::remove_all(folder);
    }

    /// The sum over the ranks, in place.
    void allreduce(float* data, std::size_t n) const {
        gloo::AllreduceOptions options{context_};
        options.setOutput(data, n);
        options.setReduceFunction(
            static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
    }

private:
    void connect(int rank, int size, const std::string& folder) {
        gloo::rendezvous::FileStore store{folder};
        std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice("127.0.0.1");
        auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
        context->connectFullMesh(store, device);
        context_ = std::move(context);
    }

    std::shared_ptr<gloo::Context> context_;
};

#else

struct GlooPeer {
    template <class World>
    explicit GlooPeer(World&) {
        throw std::runtime_error(
            "this program was built without Gloo; install it (Debian: libgloo-dev) and build again");
    }
    void allreduce(float*, std::size_t) const {}
};

#endif

}  // namespace bench
