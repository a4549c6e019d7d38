// A user's program: threads, and processes too where hvd was built with MPI.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <hvd/hvd.hpp>

namespace {

const auto add_up = [](auto& world) {
    std::vector<float> v(3, 1.0f);
    hvd::allreduce(world, v);
    if (v[0] != static_cast<float>(world.size())) throw std::runtime_error{"wrong sum"};
    if (world.rank() == 0) std::printf("OK %d\n", static_cast<int>(world.size()));
};

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "mpi") == 0) {
#ifdef HVD_WITH_MPI
        return hvd::launch<hvd::Mpi>(argc, argv, add_up);
#else
        std::puts("built without MPI");
        return 77;
#endif
    }
    return hvd::launch<hvd::Local>(2, add_up);
}
