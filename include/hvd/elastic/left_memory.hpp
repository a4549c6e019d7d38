// What the MPI of workers that were killed has left in shared memory, which has names there, and its removal.
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::detail {

template <class F>
void for_each_file(const std::string& folder, F f) {
    DIR* directory = ::opendir(folder.c_str());
    if (directory == nullptr) return;
    while (const dirent* entry = ::readdir(directory)) f(std::string{entry->d_name});
    ::closedir(directory);
}

/// Some process of this user has the file open or mapped.
inline bool is_in_use(const std::string& path) {
    bool is_used = false;
    for_each_file("/proc", [&](const std::string& process) {
        if (is_used || process.find_first_not_of("0123456789") != std::string::npos) return;
        std::ifstream maps{"/proc/" + process + "/maps"};
        for (std::string line; !is_used && std::getline(maps, line);) is_used = line.ends_with(path);
        for_each_file("/proc/" + process + "/fd", [&](const std::string& number) {
            char target[256];
            const ssize_t n = ::readlink(("/proc/" + process + "/fd/" + number).c_str(), target, sizeof target);
            is_used = is_used || (n > 0 && std::string_view{target, static_cast<std::size_t>(n)} == path);
        });
    });
    return is_used;
}

/// Removes files of this user's that an MPI has made since then and that nobody uses. Call it when all workers have ended.
inline void remove_left_memory(std::time_t since) {
    for_each_file("/dev/shm", [since](const std::string& name) {
        constexpr std::string_view makers[] = {"mpich_shar_tmp", "ucx_shm_posix_", "vader_segment.", "sm_segment."};
        const bool is_known = std::any_of(std::begin(makers), std::end(makers),
                                          [&name](std::string_view maker) { return name.starts_with(maker); });
        const std::string path = "/dev/shm/" + name;
        struct stat status {};
        if (!is_known || ::lstat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return;
        if (status.st_mtime >= since && !is_in_use(path)) ::unlink(path.c_str());
    });
}

}  // namespace hvd::detail
