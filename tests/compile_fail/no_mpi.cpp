// hvd::Mpi in a unit that does not enable it.
#ifdef HVD_WITH_MPI
#undef HVD_WITH_MPI
#endif
#include <hvd/comm/allreduce.hpp>
#include <hvd/comm/launch.hpp>

int main(int argc, char** argv) {
    static_cast<void>(argc);
    static_cast<void>(argv);
    using Transport = hvd::Mpi;  // its name is there
    static_cast<void>(Transport::name);
#if CASE == 1
    // expect: hvd::launch<hvd::Mpi> needs MPI; define HVD_WITH_MPI
    return hvd::launch<hvd::Mpi>(argc, argv, [](auto&) {});
#elif CASE == 2
    // expect: hvd::launch<hvd::Mpi> needs MPI; define HVD_WITH_MPI
    return hvd::launch<hvd::Mpi>(2, [](auto&) {});
#elif CASE == 3
    // expect: hvd::Mpi is not enabled in this translation unit
    const hvd::Mpi transport{3};
#endif
}
