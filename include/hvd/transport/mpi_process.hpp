// This process's side of MPI: initialised once if nobody has, finalised by whoever initialised it. Needs MPI.
#pragma once

#ifdef HVD_WITH_MPI

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <hvd/core/error.hpp>
#include <hvd/transport/launcher.hpp>
#include <hvd/transport/mpi_ulfm.hpp>
#include <hvd/transport/worker.hpp>

namespace hvd::detail {

inline std::string mpi_error_text(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
    return std::string(text, static_cast<std::size_t>(length));
}

[[noreturn]] inline void throw_change() {
    throw WorldChanged{"hvd: a worker of this job is gone, so the others enter the body again"};
}

/// Turns a code returned by MPI into an exception.
inline void check_mpi(int code, const char* call) {
    if (code != MPI_SUCCESS && outlives_deaths() && ulfm_is_death(code)) throw_change();
    if (code != MPI_SUCCESS) throw TransportError{std::string{"hvd: "} + call + " failed: " + mpi_error_text(code)};
}

/// The worker of a process, in a job that may go on when others die: its waits are left when the job wants a newer life
/// than the one in which this worker began.
class MpiWorker final : public Worker {
public:
    void check() override {
        if (has_changed()) throw_change();
    }
    void watch(const std::atomic<std::uint64_t>& wanted, std::uint64_t life) {
        life_ = life;
        wanted_ = &wanted;
    }
    bool has_changed() const { return wanted_ != nullptr && wanted_->load(std::memory_order_relaxed) > life_; }

private:
    const std::atomic<std::uint64_t>* wanted_ = nullptr;
    std::uint64_t life_ = 0;
};

class MpiProcess {
public:
    static MpiProcess& instance() {
        static MpiProcess process;
        return process;
    }

    /// The worker shared by all MPI communicators of this process.
    const std::shared_ptr<MpiWorker>& worker() const { return worker_; }
    /// For a life of the job that begins after deaths. What is left of the one before keeps its worker.
    void begin_life(const std::atomic<std::uint64_t>& wanted, std::uint64_t life) {
        worker_->clear();
        worker_ = std::make_shared<MpiWorker>();
        worker_->watch(wanted, life);
    }
    /// All processes that launches run on: MPI_COMM_WORLD, or what is left of it.
    MPI_Comm world() const { return world_; }
    void go_on_with(MPI_Comm world) { world_ = world; }
    /// Others have died, and MPI would wait for them in its end.
    void has_outlived() { has_outlived_ = true; }
    int thread_level() const { return thread_level_; }

    /// While a job runs, leaving the process without its end (std::exit in the body) ends the whole job: a rank that
    /// is missing would leave the others waiting.
    void job_begins() { ++jobs_; }
    void job_ends() { --jobs_; }

    /// Somebody starts the job again when it ends too early, so that leaving it is left to him. `exiting` is called before
    /// MPI ends.
    void is_supervised(void (*exiting)()) { exiting_ = exiting; }

private:
    MpiProcess() {
        int initialised = 0;
        MPI_Initialized(&initialised);
        if (!initialised) {
            check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level_), "MPI_Init_thread");
            ours_ = true;
            // MPICH raises the error of a request on the world's handler, whatever its communicator says.
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        } else {
            MPI_Query_thread(&thread_level_);
        }
        int size = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        const auto launcher = launcher_info();
        if (launcher && launcher->size > 1 && size == 1) {
            throw UsageError{
                "hvd: the MPI launcher started " + std::to_string(launcher->size) +
                " processes, but the MPI library of this program sees only itself; start it with the mpiexec "
                "of the MPI it was compiled with (mpiexec.mpich or mpiexec.openmpi)"};
        }
    }

    ~MpiProcess() {
        int finalised = 0;
        MPI_Finalized(&finalised);
        if (finalised) return;
        if (jobs_ > 0 && exiting_ != nullptr) return;
        if (jobs_ > 0) {
            int rank = 0;
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            std::fprintf(stderr, "hvd: rank %d left the program in the middle of the job, so the job ends\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (exiting_ != nullptr) exiting_();
        if (ours_ && !has_outlived_) MPI_Finalize();
    }

    bool ours_ = false, has_outlived_ = false;
    int jobs_ = 0;
    void (*exiting_)() = nullptr;
    MPI_Comm world_ = MPI_COMM_WORLD;
    int thread_level_ = MPI_THREAD_SINGLE;
    std::shared_ptr<MpiWorker> worker_ = std::make_shared<MpiWorker>();
};

}  // namespace hvd::detail

#endif
