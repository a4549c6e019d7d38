// Workers as processes that an MPI launcher started: this process is one of them. Needs MPI.
#pragma once

#ifdef HVD_WITH_MPI

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <hvd/comm/launch_local.hpp>
#include <hvd/transport/mpi.hpp>

namespace hvd::detail {

/// A TransportError is often the consequence of another rank's failure, whose own words are worth more: that rank ends the
/// job, and this process with it, if it gets the time.
inline void wait_for_the_cause() {
    try {
        throw;
    } catch (const TransportError&) {
        std::this_thread::sleep_for(std::chrono::milliseconds{200});
    } catch (...) {
    }
}

/// MPI_Abort, after which Hydra loses what a process has written shortly before: it gets the time to pass that on.
inline void abort_when_heard() {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    MPI_Abort(MPI_COMM_WORLD, 1);  // the others leave their waits at once
}

template <class A, class F>
int launch_mpi(const LaunchOptions& options, F& body) {
    const auto say = [](const std::string& text) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s\n", text.c_str());
    };
    MpiProcess* process = nullptr;
    try {
        process = &MpiProcess::instance();
    } catch (const Error& e) {
        say(e.what());
        return 1;
    }
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (options.workers > 0 && options.workers != size)
        throw UsageError{"hvd: launch is to run " + std::to_string(options.workers) +
                         " workers, but the launcher started " + std::to_string(size) +
                         "; leave .workers out or start as many"};
    process->job_begins();
    try {
        check_environment();
        Communicator<BasicMpi<true>, A> world{BasicMpi<true>{MPI_COMM_WORLD, options.ranks_per_node}, A{},
                                              CommunicatorOptions{options.checks}};
        body(world);
        leave_together(world);
    } catch (...) {
        wait_for_the_cause();
        say("hvd: rank " + std::to_string(rank) + " of " + std::to_string(size) +
            " failed, so this job ends: " + current_exception_text());
        if (size > 1) abort_when_heard();
        process->job_ends();
        return 1;
    }
    process->job_ends();
    return 0;
}

}  // namespace hvd::detail

#endif
