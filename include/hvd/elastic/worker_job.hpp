// WorkerJob: one life of a supervised job: mpiexec, the shells that report, and how all of it is ended.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hvd/elastic/mpi_command.hpp>
#include <hvd/elastic/supervised_worker.hpp>

namespace hvd::detail {

/// A file descriptor that is closed in the end.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_{number} {}
    Descriptor(Descriptor&& other) noexcept : number_{std::exchange(other.number_, -1)} {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() { close(); }
    int number() const { return number_; }
    void close() {
        if (number_ >= 0) ::close(std::exchange(number_, -1));
    }
    /// As other processes of this user open it.
    std::string path() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(number_); }

private:
    int number_;
};

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
        int group = 0;     // of processes: its shell's number; 0 until it has started
        bool ended = false;
        int status = 0;    // as a shell has it: more than 128 is a signal
        std::string why;   // the supervisor's own reason to end it
        std::uint64_t pulse = 0;
        std::chrono::steady_clock::time_point seen{};
    };

    /// Starts `launcher` -n `workers`. Throws TransportError.
    WorkerJob(std::vector<std::string> command, int workers, const std::string& supervisor, const sigset_t& signals)
        : workers_(static_cast<std::size_t>(workers)) {
        ::fcntl(reports_.read.number(), F_SETFL, O_NONBLOCK);
        for (const std::string& word : {std::string{"-n"}, std::to_string(workers), std::string{"/bin/sh"},
                                        std::string{"-c"}, reporting_script(reports_.write.path(), hold_.read.path())})
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
    int reports() const { return reports_.read.number(); }
    int launcher_end() const { return launcher_end_.number(); }
    pid_t launcher() const { return launcher_; }

    /// Takes what the shells have written. True when a worker has ended.
    bool take_reports() {
        bool has_ended = false;
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
                has_started_ = true;
            } else {
                worker.ended = has_ended = true;
                worker.status = value;
            }
        }
        return has_ended;
    }
    bool has_started() const { return has_started_; }

    /// All have ended well: the shells go, and the launcher with them.
    void release() { hold_.write.close(); }

    /// Ends all that is left, and returns when nothing of it can write to the state any more.
    void end(ControlPage& page) {
        std::vector<Descriptor> processes;
        for (int rank = 0; rank < static_cast<int>(workers_.size()); ++rank)
            if (const int pid = page.record(rank).pid.load(); pid > 0)
                processes.emplace_back(open_process(pid));
        kill_all();
        for (const Descriptor& process : processes) {
            pollfd file{process.number(), POLLIN, 0};
            if (file.fd >= 0) ::poll(&file, 1, 5000);
        }
        ::kill(launcher_, SIGTERM);
        wait_for_launcher();
        take_reports();
        kill_all();  // who has started meanwhile
    }

    /// The shell's word for how the launcher ended, after it has.
    int wait_for_launcher() {
        release();
        if (launcher_ <= 0) return launcher_status_;
        pollfd file{launcher_end_.number(), POLLIN, 0};
        if (file.fd >= 0 && ::poll(&file, 1, 10000) == 0) ::kill(launcher_, SIGKILL);
        int status = 0;
        while (::waitpid(launcher_, &status, 0) < 0 && errno == EINTR) {
        }
        launcher_ = 0;
        return launcher_status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }

private:
    void kill_all() {
        for (const Worker& worker : workers_)
            if (worker.group > 1) ::kill(-worker.group, SIGKILL);
    }

    Pipe reports_, hold_;
    std::vector<Worker> workers_;
    std::string text_;
    pid_t launcher_ = 0;
    int launcher_status_ = 0;
    Descriptor launcher_end_;
    bool has_started_ = false;
};

}  // namespace hvd::detail
