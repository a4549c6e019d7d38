// hvd::Mpi: ranks are processes of an MPI job. Declared always, defined with HVD_WITH_MPI.
#pragma once

#include <hvd/transport/basic_mpi.hpp>

#ifdef HVD_WITH_MPI
#include <hvd/transport/mpi_transport.hpp>
#endif

namespace hvd {

#ifdef HVD_WITH_MPI
using Mpi = BasicMpi<true>;
#else
using Mpi = BasicMpi<false>;
#endif

}  // namespace hvd
