// What a test that runs under mpiexec sees of its job. MPI is initialised before main's test cases begin, with
// MPI_THREAD_MULTIPLE, and finalised after them.
#pragma once

#include "watchdog.hpp"

#include <mpi.h>

namespace hvd_test {

MPI_Comm comm();  // all ranks of the job
int rank();
int size();

}  // namespace hvd_test
