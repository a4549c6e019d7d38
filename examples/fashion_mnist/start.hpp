// How the program starts itself again as several processes.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#ifdef HVD_WITH_MPI  // hvd
#include <mpi.h>
#endif

namespace fashion {

/// Set for the processes that are started: the terminal is behind the launcher.
constexpr const char* terminal_variable = "FASHION_MNIST_TERMINAL";

inline bool is_under_launcher() {
    for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
        if (std::getenv(name) != nullptr) return true;
    return false;
}

inline bool is_terminal() { return ::isatty(STDOUT_FILENO) != 0 || std::getenv(terminal_variable) != nullptr; }

/// Becomes `mpiexec -n workers` of this program with the same arguments. Returns only when that fails.
inline std::string start_processes([[maybe_unused]] int workers, [[maybe_unused]] char** arguments) {
#ifdef HVD_WITH_MPI  // hvd
#ifdef OPEN_MPI
    const std::vector<std::string> launchers{"mpiexec.openmpi", "mpiexec"},
        options{"--oversubscribe", "--bind-to", "none"};
#else
    const std::vector<std::string> launchers{"mpiexec.mpich", "mpiexec.hydra", "mpiexec"}, options{};
#endif
    char program[4096];
    const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
    if (length <= 0) return "cannot find out where this program lies; start it with mpiexec";
    if (::isatty(STDOUT_FILENO)) ::setenv(terminal_variable, "1", 1);
    for (const std::string& launcher : launchers) {
        std::vector<std::string> words{launcher};
        words.insert(words.end(), options.begin(), options.end());
        words.insert(words.end(),
                     {"-n", std::to_string(workers), std::string(program, static_cast<std::size_t>(length))});
        for (char** argument = arguments + 1; *argument != nullptr; ++argument) words.emplace_back(*argument);
        std::vector<char*> pointers;
        for (std::string& word : words) pointers.push_back(word.data());
        pointers.push_back(nullptr);
        ::execvp(launcher.c_str(), pointers.data());
    }
    return "found no mpiexec; install one (Debian: mpich), or train with threads: --transport local";
#else
    return "compiled without MPI; train with threads: --transport local";
#endif
}

}  // namespace fashion
