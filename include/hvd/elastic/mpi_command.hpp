// The command by which a supervisor starts its workers: mpiexec, a shell per worker that reports how it ended, this program.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/elastic/control_page.hpp>

namespace hvd::detail {

/// Which MPI the program was compiled with; it must be started by the launcher of the same.
enum class MpiKind { Mpich, OpenMpi, OpenMpiUlfm };

inline bool is_open_mpi(MpiKind kind) { return kind != MpiKind::Mpich; }

inline bool is_program(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

/// Where a program lies, or nothing.
inline std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
    const char* path = std::getenv("PATH");
    std::istringstream folders{path != nullptr ? path : "/usr/bin:/bin"};
    for (std::string folder; std::getline(folders, folder, ':');)
        if (const std::string file = (folder.empty() ? "." : folder) + "/" + name; is_program(file)) return file;
    return {};
}

/// The launcher and its own arguments. HVD_MPIEXEC names another. Throws UsageError when there is none.
inline std::vector<std::string> mpi_launcher(MpiKind kind, const std::string& hosts) {
    std::vector<std::string> command;
    if (const char* text = std::getenv("HVD_MPIEXEC")) {
        std::istringstream words{text};
        command.assign(std::istream_iterator<std::string>{words}, {});
        if (command.empty() || find_program(command[0]).empty())
            throw UsageError{std::string{"hvd: the environment variable HVD_MPIEXEC is '"} + text +
                             "', which begins with no program; give an mpiexec and its arguments"};
        command[0] = find_program(command[0]);
    } else {
        const std::vector<const char*> names =
            kind == MpiKind::OpenMpiUlfm ? std::vector<const char*>{"mpiexec", "mpirun"}
            : kind == MpiKind::OpenMpi   ? std::vector<const char*>{"mpiexec.openmpi", "mpirun.openmpi", "mpiexec"}
                                         : std::vector<const char*>{"mpiexec.mpich", "mpiexec.hydra", "mpiexec"};
        for (const char* name : names)
            if (command.empty() && !find_program(name).empty()) command.push_back(find_program(name));
        if (command.empty())
            throw UsageError{
                "hvd: an elastic job starts its workers by mpiexec, which is not in PATH; install it or name it in "
                "HVD_MPIEXEC"};
        if (is_open_mpi(kind)) command.insert(command.end(), {"--oversubscribe", "--bind-to", "none"});
    }
    if (kind == MpiKind::OpenMpiUlfm)
        command.insert(command.end(), {"--with-ft", "ulfm", "--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp"});
    if (!hosts.empty()) {
        command.push_back(is_open_mpi(kind) ? "--host" : "-hosts");
        command.push_back(hosts);
    }
    return command;
}

/// This program and its arguments, as they were given.
inline std::vector<std::string> own_command() {
    std::ifstream file{"/proc/self/cmdline", std::ios::binary};
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    char path[4096];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    if (words.empty() || length <= 0)
        throw UsageError{"hvd: an elastic job finds its own program in /proc, which cannot be read; mount it"};
    words[0].assign(path, static_cast<std::size_t>(length));
    return words;
}

/// As the launcher says it, for a shell.
inline constexpr const char* launcher_rank = "${PMI_RANK-${OMPI_COMM_WORLD_RANK-${PMIX_RANK-0}}}";

/// The shell's part: it says its own number (that of its process group) and how the worker ended, and stays until the
/// supervisor lets it go, so that the launcher kills nobody before all is known. The shell's own end is always a good one, of
/// which the launcher makes no words.
inline std::string reporting_script(const std::string& rank, const std::string& reports, const std::string& hold) {
    return "exec 4>&2 2>/dev/null; r=" + rank + "; if ! test -w " + reports +
           "; then echo \"hvd: a worker on $(uname -n) does not find its supervisor, which runs on another machine or has "
           "ended; an elastic job keeps its state in the memory of one machine, so give it hosts of this one\" >&4; "
           "exit 1; fi; echo \"$r start $$\" >" +
           reports +
           " || exit 1; "
           "if test $r = 0; then exec 3<&0; else exec 3</dev/null; fi; "  // a launcher has one input, for rank 0
           "(exec \"$0\" \"$@\" <&3 3<&- 2>&4 4>&-); s=$?; "
           "echo \"$r end $s\" >" +
           reports + "; read x <" + hold + "; exit 0";
}

}  // namespace hvd::detail
