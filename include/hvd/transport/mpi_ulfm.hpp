// ULFM: the part of an MPI that outlives the death of processes, where the MPI that is compiled against has it. Needs MPI.
#pragma once

#ifdef HVD_WITH_MPI

#include <mpi.h>

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <atomic>

namespace hvd::detail {

// Told by the macro of Open MPI and never by the names of functions: MPICH has them, links, and aborts.
#ifdef OMPI_HAVE_MPI_EXT_FTMPI

inline constexpr bool mpi_has_ulfm = true;

/// All communication on it ends with an error, on every rank.
inline void ulfm_revoke(MPI_Comm comm) { MPIX_Comm_revoke(comm); }

/// Collective over the living ranks: they alone. False: try again.
inline bool ulfm_shrink(MPI_Comm comm, MPI_Comm& made) {
    if (MPIX_Comm_shrink(comm, &made) != MPI_SUCCESS || made == MPI_COMM_NULL) return false;
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return true;
}

/// Collective over the living ranks: whether `is_good` on all of them.
inline bool ulfm_agree(MPI_Comm comm, bool is_good) {
    int flag = is_good ? 1 : 0;
    return MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag == 1;
}

/// The error tells of a death, or that another rank has noticed one.
inline bool ulfm_is_death(int code) {
    int error = MPI_SUCCESS;
    MPI_Error_class(code, &error);
    return error == MPIX_ERR_PROC_FAILED || error == MPIX_ERR_PROC_FAILED_PENDING || error == MPIX_ERR_REVOKED;
}

#else

inline constexpr bool mpi_has_ulfm = false;
inline void ulfm_revoke(MPI_Comm) {}
inline bool ulfm_shrink(MPI_Comm, MPI_Comm&) { return false; }
inline bool ulfm_agree(MPI_Comm, bool is_good) { return is_good; }
inline bool ulfm_is_death(int) { return false; }

#endif

/// Set when this process goes on though others of its job die: MPI may then touch memory of hvd's only, and what has failed
/// is left alone.
inline std::atomic<bool> outlives_deaths_flag = false;
inline bool outlives_deaths() { return mpi_has_ulfm && outlives_deaths_flag.load(std::memory_order_relaxed); }

}  // namespace hvd::detail

#endif
