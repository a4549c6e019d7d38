// WorkerJob: one life of a supervised job: mpiexec, the shells that report, and how all of it is ended.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/core/descriptor.hpp>
#include <hvd/elastic/mpi_command.hpp>
#include <hvd/elastic/supervised_worker.hpp>

namespace hvd::detail {

/// Where other processes of this user can open it.
inline std::string path_of(const Descriptor& file) {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.number());
}

struct Pipe {
    Descriptor read, write;
    Pipe() {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0)
            throw TransportError{std::string{"hvd: the supervisor could not make a pipe: "} + std::strerror(errno) +
                                 "; raise the limit of open files"};
        read = Descriptor{ends[0]};
        write = Descriptor{ends[1]};
    }
};

class WorkerJob {
public:
    /// What is known of one worker from outside.
    struct Worker {
        int group = 0;   // of processes: its shell's number; 0 until it has started, has_gone after `let_go`
        int parent = 0;  // of the shell
        bool ended = false;
        int status = 0;          // as a shell has it: more than 128 is a signal
        bool is_killed = false;  // with the rest of the job, after another's end
        std::string why;         // the supervisor's own reason to end it
        std::uint64_t pulse = 0;
        std::chrono::duration<double> silence{0};
    };

    static constexpr int has_gone = 1;

    struct Stopped {
        int process;
        bool is_worker;  // or one of those that start workers
    };

    /// Starts `launcher` -n `workers`. Throws TransportError.
    WorkerJob(std::vector<std::string> command, MpiKind kind, int workers, const std::string& supervisor,
              const sigset_t& signals)
        : is_quiet_when_killed_{kind == MpiKind::Mpich}, workers_(static_cast<std::size_t>(workers)) {
        ::fcntl(reports_.read.number(), F_SETFL, O_NONBLOCK);
        for (const std::string& word :
             {std::string{"-n"}, std::to_string(workers), std::string{"/bin/sh"}, std::string{"-c"},
              reporting_script(launcher_rank, reports_path(), hold_path())})
            command.push_back(word);
        for (const std::string& word : own_command()) command.push_back(word);
        std::vector<char*> arguments, variables;
        for (std::string& word : command) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        std::string address = std::string{supervisor_variable} + "=" + supervisor;
        for (char** v = ::environ; *v != nullptr; ++v)
            if (!std::string_view{*v}.starts_with(std::string{supervisor_variable} + "=")) variables.push_back(*v);
        variables.push_back(address.data());
        std::string root[] = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};  // as who started it is
        for (std::string& v : root) variables.push_back(v.data());
        variables.push_back(nullptr);

        std::fflush(nullptr);
        const pid_t parent = ::getpid();
        launcher_ = ::fork();
        if (launcher_ < 0)
            throw TransportError{std::string{"hvd: the supervisor could not start mpiexec: "} + std::strerror(errno)};
        if (launcher_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpiexec then ends all workers
            if (::getppid() != parent) ::_exit(1);
            ::sigprocmask(SIG_SETMASK, &signals, nullptr);
            ::execve(arguments[0], arguments.data(), variables.data());
            ::_exit(127);
        }
        launcher_end_ = Descriptor{open_process(launcher_)};
    }
    WorkerJob(const WorkerJob&) = delete;
    WorkerJob& operator=(const WorkerJob&) = delete;
    ~WorkerJob() { wait_for_launcher(); }

    std::vector<Worker>& workers() { return workers_; }
    const std::vector<Worker>& workers() const { return workers_; }
    std::string reports_path() const { return path_of(reports_.write); }
    std::string hold_path() const { return path_of(hold_.read); }
    int reports() const { return reports_.read.number(); }
    int launcher_end() const { return launcher_end_.number(); }

    /// Takes what the shells have written.
    void take_reports() {
        char buffer[4096];
        for (ssize_t n; (n = ::read(reports_.read.number(), buffer, sizeof buffer)) > 0;)
            text_.append(buffer, static_cast<std::size_t>(n));
        for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
            int rank = 0, value = 0;
            char what[8] = "";
            if (std::sscanf(text_.c_str(), "%d %7s %d", &rank, what, &value) != 3 || rank < 0 ||
                rank >= static_cast<int>(workers_.size()))
                continue;
            Worker& worker = workers_[static_cast<std::size_t>(rank)];
            if (std::string_view{what} == "start") {
                worker.group = value;
                worker.parent = stat_of(value).parent;
                has_started_ = true;
            } else {
                worker.ended = true;
                worker.status = value;
            }
        }
    }
    /// Workers whose shells are gone count as ended: nobody else would tell of their end.
    void look_for_dead_shells() {
        for (Worker& worker : workers_) {
            if (worker.group <= 1 || worker.ended) continue;
            const char state = stat_of(worker.group).state;
            if (state != 'Z' && state != ' ') continue;
            take_reports();
            if (std::exchange(worker.ended, true)) continue;
            worker.status = 128 + SIGKILL;
            worker.is_killed = true;  // with the launcher's part of the job, which takes all shells along
        }
    }
    bool has_started() const { return has_started_; }
    bool have_all_started() const {
        return std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.group > 0; });
    }
    bool has_launcher_ended() const {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(launcher_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid != 0;
    }
    /// What started a shell is gone, and what its worker has written since then.
    bool is_cut_off() const {
        return std::any_of(workers_.begin(), workers_.end(),
                           [](const Worker& w) { return w.group > 1 && stat_of(w.group).parent != w.parent; });
    }
    int launcher_status() const { return launcher_status_; }

    /// The worker's process and what it has started. Its shell stays.
    void kill_worker(int rank) {
        if (const int shell = workers_[static_cast<std::size_t>(rank)].group; shell > 1) kill_children(shell, 0);
    }

    /// The shell of a worker that has ended goes, too, so that the launcher, and by it MPI, learns of the end.
    void let_go(int rank) {
        Worker& worker = workers_[static_cast<std::size_t>(rank)];
        if (worker.group > 1) ::kill(-worker.group, SIGKILL);
        worker.group = has_gone;
    }

    /// Another is to come in the place of one that was let go.
    void expect(int rank) { workers_[static_cast<std::size_t>(rank)] = Worker{}; }

    /// Stopped processes of this job (by SIGSTOP), from the launcher down to the workers.
    std::vector<Stopped> stopped() const {
        std::vector<Stopped> found;
        if (launcher_ > 0) find_stopped(launcher_, 0, false, found);
        return found;
    }

    /// Ends all that is left, and returns when nothing of it can write to the state any more.
    void end(ControlPage& page) {
        std::vector<Descriptor> processes;
        for (int rank = 0; rank < static_cast<int>(workers_.size()); ++rank)
            if (const int pid = page.record(rank).pid.load(); pid > 0) {
                processes.emplace_back(open_process(pid));
                // Its shell may be gone without it.
                if (stat_of(pid).group == workers_[static_cast<std::size_t>(rank)].group) ::kill(pid, SIGKILL);
            }
        kill_workers();
        wait_until(std::chrono::seconds{1}, [&] { return !is_any_left(); });
        for (const Descriptor& process : processes) {
            pollfd file{process.number(), POLLIN, 0};
            if (file.fd >= 0) ::poll(&file, 1, 5000);
        }
        if (is_quiet_when_killed_) kill_launcher();
        wait_for_launcher();
    }

    /// All shells go, and the launcher with them, when it has passed on their output; it is ended if it has not for so long.
    /// Returns its exit code as a shell has it.
    int wait_for_launcher(std::chrono::duration<double> patience = std::chrono::seconds{1}) {
        hold_.write.close();
        if (launcher_ <= 0) return launcher_status_;
        for (const int signal : {0, SIGCONT, SIGTERM, SIGKILL}) {
            if (signal == SIGCONT)
                for (const int process : children(launcher_)) ::kill(process, SIGCONT);
            if (signal != 0) ::kill(launcher_, signal);
            if (signal == SIGKILL) break;
            if (wait_until(std::chrono::duration_cast<std::chrono::milliseconds>(patience), [&] {
                    kill_workers_after_launch();
                    return has_launcher_ended();
                }))
                break;
        }
        int status = 0;
        while (::waitpid(launcher_, &status, 0) < 0 && errno == EINTR) {
        }
        launcher_ = 0;
        for (const Worker& worker : workers_)  // what a launcher that had to be killed has left
            if (worker.group > 1 && !worker.ended) ::kill(-worker.group, SIGKILL);
        return launcher_status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }

private:
    template <class Condition>
    bool wait_until(std::chrono::steady_clock::duration patience, Condition is_true) {
        const auto until = std::chrono::steady_clock::now() + patience;
        while (!is_true()) {
            if (std::chrono::steady_clock::now() > until) return false;
            pollfd file{reports(), POLLIN, 0};
            ::poll(&file, 1, 1);
            take_reports();
        }
        return true;
    }
    /// Hydra has words for workers that did not end by themselves, also for those that it ends itself. It is killed when it
    /// has passed on what the workers have written: when it and its proxies rest.
    void kill_launcher() {
        if (launcher_ <= 0) return;
        std::vector<int> processes = children(launcher_);
        processes.insert(processes.begin(), launcher_);
        for (const Worker& worker : workers_)  // of a launcher that is dead already
            if (worker.group > 1 && worker.parent > 1 && stat_of(worker.group).parent == worker.parent)
                processes.push_back(worker.parent);
        int rests = 0;
        const auto do_rest = [&] {
            const bool rest =
                std::all_of(processes.begin(), processes.end(), [](int p) { return stat_of(p).state != 'R'; });
            return (rests = rest ? rests + 1 : 0) >= 3;
        };
        wait_until(std::chrono::milliseconds{300}, do_rest);
        for (const int process : processes) ::kill(process, SIGKILL);
        for (const Worker& worker : workers_)
            if (worker.group > 1) ::kill(-worker.group, SIGKILL);
    }
    bool is_any_left() const {
        for (const Worker& worker : workers_)
            if (worker.group > 1 && !worker.ended && ::kill(worker.group, 0) == 0) return true;
        return false;
    }
    void kill_workers() {
        for (int rank = 0; rank < static_cast<int>(workers_.size()); ++rank)
            if (Worker& worker = workers_[static_cast<std::size_t>(rank)]; !worker.ended) {
                worker.is_killed = true;
                kill_worker(rank);
            }
    }
    /// A shell that the launcher started late.
    void kill_workers_after_launch() {
        if (is_any_left()) kill_workers();
    }

    static std::vector<int> children(int pid) {
        const std::string number = std::to_string(pid);
        std::ifstream file{"/proc/" + number + "/task/" + number + "/children"};
        return {std::istream_iterator<int>{file}, {}};
    }
    struct ProcessStat {
        char state = ' ';  // as ps has it: R runs, S sleeps, T is stopped
        int parent = 0, group = 0;
    };
    static ProcessStat stat_of(int pid) {
        std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
        std::string line;
        std::getline(file, line);
        ProcessStat stat;
        const std::size_t name_end = line.rfind(')');
        if (name_end != std::string::npos)
            std::sscanf(line.c_str() + name_end, ") %c %d %d", &stat.state, &stat.parent, &stat.group);
        return stat;
    }
    static void kill_children(int pid, int depth) {
        for (const int child : children(pid)) {
            if (depth < 8) kill_children(child, depth + 1);
            ::kill(child, SIGKILL);
        }
    }
    void find_stopped(int pid, int depth, bool is_worker, std::vector<Stopped>& found) const {
        if (stat_of(pid).state == 'T') found.push_back({pid, is_worker});
        const bool is_shell =
            std::any_of(workers_.begin(), workers_.end(), [pid](const Worker& w) { return w.group == pid; });
        if (is_worker || depth >= 4) return;
        for (const int child : children(pid)) find_stopped(child, depth + 1, is_shell, found);
    }

    Pipe reports_, hold_;
    bool is_quiet_when_killed_;
    std::vector<Worker> workers_;
    std::string text_;
    pid_t launcher_ = 0;
    int launcher_status_ = 0;
    Descriptor launcher_end_;
    bool has_started_ = false;
};

}  // namespace hvd::detail
