// launch: runs a function on every worker, with the communicator of them all.
#pragma once

#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include <hvd/comm/launch_local.hpp>
#include <hvd/comm/launch_nccl.hpp>
#include <hvd/transport/launcher.hpp>
#include <hvd/transport/mpi.hpp>

#ifdef HVD_WITH_MPI
#include <hvd/comm/launch_mpi.hpp>
#endif

namespace hvd {
namespace detail {

template <class T>
inline constexpr bool is_launchable = std::same_as<T, Local> || std::same_as<T, BasicMpi<true>>;
template <class Bootstrap>
inline constexpr bool is_launchable<Nccl<Bootstrap, true>> = is_launchable<Bootstrap>;

template <class T>
consteval bool explain_launch() {
    if constexpr (std::same_as<T, Nccl<typename NcclBootstrap<T>::type, false>>)
        static_assert(
            is_launchable<T>,
            "hvd: hvd::launch<hvd::Nccl> needs NCCL; define HVD_WITH_CUDA and HVD_WITH_NCCL, give the compiler "
            "CUDA's headers, and link with -lnccl -lcudart");
    else if constexpr (!std::same_as<typename NcclBootstrap<T>::type, void>)
        return explain_launch<typename NcclBootstrap<T>::type>();
    else if constexpr (std::same_as<T, BasicMpi<false>>)
        static_assert(
            is_launchable<T>,
            "hvd: hvd::launch<hvd::Mpi> needs MPI; define HVD_WITH_MPI and compile with mpicxx, or use hvd::Local");
    else static_assert(is_launchable<T>, "hvd: hvd::launch starts workers on hvd::Local, hvd::Mpi or hvd::Nccl");
    return is_launchable<T>;
}

inline void check_options(const LaunchOptions& options) {
    if (options.workers < 0)
        throw UsageError{"hvd: launch cannot start " + std::to_string(options.workers) + " workers; give at least one"};
    if (options.ranks_per_node < 0)
        throw UsageError{"hvd: launch cannot place " + std::to_string(options.ranks_per_node) +
                         " ranks on a node; give at least one, or 0 for the real nodes"};
}

/// The number that code, then HVD_WORKERS, then the machine gives.
inline int local_workers(const LaunchOptions& options) {
    constexpr int most = 4096;  // each is a thread, and has a mailbox for each other
    const auto few_enough = [](int workers, const char* source) {
        if (workers > most)
            throw UsageError{"hvd: " + std::string{source} + " asks for " + std::to_string(workers) +
                             " workers, and one process runs at most " + std::to_string(most) +
                             " as threads; give fewer, or use hvd::Mpi"};
        return workers;
    };
    if (options.workers > 0) return few_enough(options.workers, "launch");
    if (const char* text = std::getenv("HVD_WORKERS")) {
        const auto number = number_from_environment("HVD_WORKERS");
        if (!number || *number < 1)
            throw UsageError{"hvd: the environment variable HVD_WORKERS is '" + std::string{text} +
                             "'; give the number of workers"};
        return few_enough(*number, "the environment variable HVD_WORKERS");
    }
    const unsigned cores = std::thread::hardware_concurrency();
    return cores == 0 ? 1 : static_cast<int>(cores);
}

template <class T, class A, class F>
int launch_on(const LaunchOptions& options, F& body) {
    check_options(options);
    if constexpr (!std::same_as<typename NcclBootstrap<T>::type, void>) {
        using Host = typename NcclBootstrap<T>::type;
        OnDevices<T, A, F> on_devices{body, options};
        return launch_on<Host, Auto>(options, on_devices);
    } else if constexpr (std::same_as<T, Local>) {
        int workers = 0;
        try {
            check_environment();
            workers = local_workers(options);
        } catch (const UsageError& e) {  // of whoever started the program, who reads no exceptions
            std::fprintf(stderr, "%s\n", e.what());
            return 1;
        }
        return launch_local<A>(workers, options, body);
    } else if (options.elastic) {
        return launch_elastic_mpi<A>(options, body, [&options] { return local_workers(options); });
    } else {
        return launch_mpi<A>(options, body);
    }
}

/// Mpi under a launcher, else Local. `Enabled` tells units with MPI from those without.
template <bool Enabled, class A, class F>
int launch_anywhere(const LaunchOptions& options, F& body) {
    const auto launcher = launcher_info();
    if constexpr (Enabled) {
        if (launcher || options.elastic) return launch_on<BasicMpi<Enabled>, A>(options, body);
    } else if (launcher && launcher->size > 1) {
        if (launcher->rank == 0)
            std::fprintf(stderr,
                         "hvd: an MPI launcher started %d processes, but this program is compiled without MPI; define "
                         "HVD_WITH_MPI and compile with mpicxx, or start it without the launcher\n",
                         launcher->size);
        return 1;
    }
    return launch_on<Local, A>(options, body);
}

}  // namespace detail

/// Runs `body(world)` on each of `workers` workers, where `world` is a `Communicator<Transport, Algorithm>&`, and returns the
/// exit code for main: 0, or 1 when a worker threw, whose words are then printed, or an HVD_* variable is wrong. With
/// hvd::Local workers are threads of this process; with hvd::Mpi the processes that mpiexec started, of which there must be
/// as many; with hvd::Nccl those of its bootstrap, each with a GPU.
/// With `.elastic` hvd::Mpi needs no launcher: this process starts the workers by mpiexec, as often as it takes, and runs no
/// body itself; see docs/faults.md.
/// Throws UsageError when the options in the code are wrong.
template <class T, class A = Auto, class F>
int launch(int workers, F&& body, LaunchOptions options = {}) {
    if constexpr (detail::explain_launch<T>()) {
        if (workers < 1)
            throw UsageError{"hvd: launch cannot start " + std::to_string(workers) + " workers; give at least one"};
        options.workers = workers;
        return detail::launch_on<T, A>(options, body);
    }
}

/// The same, with the number of workers and more in the options.
template <class T, class A = Auto, class F>
int launch(const LaunchOptions& options, F&& body) {
    if constexpr (detail::explain_launch<T>()) return detail::launch_on<T, A>(options, body);
}

/// The same, from main's arguments.
template <class T, class A = Auto, class F>
int launch(int, char**, F&& body, const LaunchOptions& options = {}) {
    if constexpr (detail::explain_launch<T>()) return detail::launch_on<T, A>(options, body);
}

/// `launch<hvd::Nccl>(...)` is `launch<hvd::Nccl<hvd::Mpi>>(...)`.
template <template <class, bool> class T, class A = Auto, class... Arguments>
    requires std::same_as<T<Mpi, true>, Nccl<Mpi, true>>
int launch(Arguments&&... arguments) { return launch<Nccl<>, A>(std::forward<Arguments>(arguments)...); }

/// On hvd::Mpi when an MPI launcher started this program, else on hvd::Local with HVD_WORKERS workers (default: one per
/// core). `body` is compiled for both: take `auto& world`.
template <class F, class M = Mpi>
int launch(int, char**, F&& body, const LaunchOptions& options = {}) {
    return detail::launch_anywhere<std::same_as<M, BasicMpi<true>>, Auto>(options, body);
}

}  // namespace hvd
