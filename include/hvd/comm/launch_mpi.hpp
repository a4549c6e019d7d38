// Workers as processes that an MPI launcher started: this process is one of them. Needs MPI.
#pragma once

#ifdef HVD_WITH_MPI

#include <chrono>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include <hvd/comm/final_checkpoint.hpp>
#include <hvd/comm/launch_local.hpp>
#include <hvd/comm/live_in_place.hpp>
#include <hvd/elastic/supervisor.hpp>
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

inline void say_after_output(const std::string& text) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", text.c_str());
}

/// Counts the elastic launches of this program: those of its workers stand for the same in its supervisor.
inline int next_elastic_launch() {
    static int count = 0;
    return ++count;
}

/// What this process is told about the state of its job, when it has a supervisor.
template <class T, class A>
void keep_supervised_state(const Communicator<T, A>& world, SupervisedWorker& supervised,
                           const LaunchOptions& options) {
    StateSetting setting = supervised.setting(static_cast<std::size_t>(world.local_rank()),
                                              static_cast<std::size_t>(world.local_size()), world.size());
    if (!setting.saved && !options.checkpoint.empty()) {
        CheckpointFile file{options.checkpoint};
        setting.saved = read_together(world, file);
        if (setting.saved && setting.saved->workers != supervised.first_workers()) setting.origin = -1;
    }
    tell_of_recovery(options, setting);
    keep_state(world, std::move(setting));
}

/// The algorithm of the world. What Auto measures is state of the job: a worker that starts again rounds as the one before.
template <class A>
A algorithm_of_job(const SupervisedWorker& supervised) {
    A algorithm{};
    if constexpr (std::same_as<A, Auto>) {
        const std::string text = supervised.auto_table();
        if (!text.empty()) algorithm.table = AutoTable::parse(text, "the state of the job");
    }
    return algorithm;
}
template <class A>
void keep_algorithm(SupervisedWorker& supervised, const A& algorithm) {
    if constexpr (std::same_as<A, Auto>)
        if (algorithm.report && algorithm.report->origin == "measured")
            supervised.keep_auto_table(algorithm.report->table.text());
}

/// The world of one life, and the body in it.
template <class A, class F>
void live_once(SupervisedWorker& supervised, MPI_Comm comm, const LaunchOptions& options, F& body) {
    Communicator<BasicMpi<true>, A> world{BasicMpi<true>{comm, options.ranks_per_node}, algorithm_of_job<A>(supervised),
                                          CommunicatorOptions{options.checks}};
    keep_algorithm(supervised, world.algorithm());
    keep_supervised_state(world, supervised, options);
    supervised.enter(WorkerPhase::Running);
    fault_point("body: before it", world.rank());
    body(world);
    fault_point("body: after it", world.rank());
    supervised.enter(WorkerPhase::Leaving);
    leave_together(world);
    fault_point("body: all have left it", world.rank());
}

/// The body in a worker that a supervisor started. An exception ends this process, and the supervisor the others.
template <class A, class F>
int run_supervised(SupervisedWorker& supervised, const LaunchOptions& options, F& body) {
    try {
        MpiProcess& process = MpiProcess::instance();
        process.is_supervised([] { SupervisedWorker::find()->enter(WorkerPhase::Exiting); });
        process.job_begins();
        check_environment();
        const auto live = [&](MPI_Comm comm) { live_once<A>(supervised, comm, options, body); };
        if (supervised.is_in_place()) live_in_place(supervised, live);
        else live(MPI_COMM_WORLD);
        supervised.enter(WorkerPhase::Returned);
        process.job_ends();
        return 0;
    } catch (const TransportError& e) {
        supervised.leave_by_exception(e.what(), true);
    } catch (const WorldChanged& e) {  // while others joined
        supervised.leave_by_exception(e.what(), true);
    } catch (...) {
        supervised.leave_by_exception(current_exception_text(), false);
    }
}

template <class A, class F>
int launch_mpi(const LaunchOptions& options, F& body) {
    MpiProcess* process = nullptr;
    try {
        process = &MpiProcess::instance();
    } catch (const Error& e) {
        say_after_output(e.what());
        return 1;
    }
    int rank = 0, size = 1;
    MPI_Comm_rank(process->world(), &rank);
    MPI_Comm_size(process->world(), &size);
    if (options.workers > 0 && options.workers != size)
        throw UsageError{"hvd: launch is to run " + std::to_string(options.workers) +
                         " workers, but the launcher started " + std::to_string(size) +
                         "; leave .workers out or start as many"};
    if (options.elastic && rank == 0)
        say_after_output(
            "hvd: an MPI launcher started this job, which cannot start itself again when a worker dies, and trains "
            "without; start the program without the launcher for that");
    process->job_begins();
    try {
        check_environment();
        Communicator<BasicMpi<true>, A> world{BasicMpi<true>{process->world(), options.ranks_per_node}, A{},
                                              CommunicatorOptions{options.checks}};
        FinalCheckpoint checkpoint{world, options};
        body(world);
        leave_together(world);
        checkpoint.write();
    } catch (...) {
        wait_for_the_cause();
        say_after_output("hvd: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                         " failed, so this job ends: " + current_exception_text());
        if (size > 1) abort_when_heard();
        process->job_ends();
        return 1;
    }
    process->job_ends();
    return 0;
}

/// Whoever the user starts is the supervisor, and starts this program again under mpiexec. `workers()`: how many.
template <class A, class F, class Workers>
int launch_elastic_mpi(const LaunchOptions& options, F& body, Workers workers) {
#ifdef OPEN_MPI
    constexpr MpiKind kind = mpi_has_ulfm ? MpiKind::OpenMpiUlfm : MpiKind::OpenMpi;
#else
    constexpr MpiKind kind = MpiKind::Mpich;
#endif
    SupervisedWorker* const supervised = SupervisedWorker::find();
    if (supervised == nullptr && launcher_info()) return launch_mpi<A>(options, body);
    const int number = next_elastic_launch();
    if (supervised != nullptr) {
        if (number < supervised->launch()) return 0;      // it has been done by the workers of an earlier one
        if (number > supervised->launch()) std::exit(0);  // is done by those of a later one
        return run_supervised<A>(*supervised, options, body);
    }
    try {
        check_environment();
        return supervise(options, workers(), kind, number);
    } catch (const UsageError& e) {
        say_after_output(e.what());
        return 1;
    }
}

}  // namespace hvd::detail

#endif
