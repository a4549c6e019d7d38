// SupervisedWorker: the side of a worker process whose supervisor starts it again when it dies.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hvd/elastic/control_page.hpp>
#include <hvd/elastic/mpi_command.hpp>
#include <hvd/transport/launcher.hpp>

namespace hvd::detail {

/// A file that becomes readable when the process has ended; -1 where the kernel has none.
inline int open_process(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

class SupervisedWorker {
public:
    /// This process's, or nothing when it has no supervisor. The first call begins to give the sign of life, which ends with
    /// the process.
    static SupervisedWorker* find() {
        static SupervisedWorker* const worker = from_environment();
        return worker;
    }
    SupervisedWorker(const SupervisedWorker&) = delete;
    SupervisedWorker& operator=(const SupervisedWorker&) = delete;

    /// Which launch of the program this worker is for, from 1.
    int launch() const { return address_.launch; }

    /// What Auto has measured for this many workers, in an earlier life; empty when there is nothing.
    std::string auto_table() const { return page_->record(page_->workers - 1).table; }
    void keep_auto_table(const std::string& text) {
        char* table = page_->record(page_->workers - 1).table;
        if (record_->rank == 0 && text.size() < sizeof(WorkerRecord::table))
            std::memcpy(table, text.c_str(), text.size() + 1);
    }

    void enter(WorkerPhase phase) {
        if (phase >= WorkerPhase::Leaving) std::fflush(nullptr);  // who dies from here on is not started again
        record_->phase.store(phase);
    }

    /// What this worker has thrown ends the job, if it is no consequence of another's death. Does not return.
    [[noreturn]] void leave_by_exception(const std::string& text, bool is_transport) {
        std::snprintf(record_->text, sizeof record_->text, "%s", text.c_str());
        record_->is_transport.store(is_transport ? 1 : 0);
        record_->thrown.store(Progress::now());
        enter(WorkerPhase::Threw);
        std::fflush(nullptr);
        ::_exit(1);  // destructors of MPI would wait for the others
    }

    /// The job goes on with the workers that are left when one dies.
    bool is_in_place() const { return address_.in_place != 0; }
    const std::atomic<std::uint64_t>& wanted_life() const { return page_->wanted; }
    std::uint64_t life() const { return life_; }
    int workers() const { return page_->workers; }
    /// The commands of those who join with this life, for a shell.
    std::vector<std::string> newcomers() const {
        std::vector<std::string> scripts;
        for (int rank = page_->workers - page_->newcomers; rank < page_->workers; ++rank) {
            SupervisorAddress address = address_;
            address.life = page_->life;
            address.record = page_->record(rank).member;
            scripts.push_back("export " + std::string{supervisor_variable} + "=" + address.text() + "; " +
                              reporting_script(std::to_string(address.record), page_->reports, page_->hold));
        }
        return scripts;
    }
    bool is_newcomer() const { return address_.record >= 0; }

    /// After WorldChanged: returns when the supervisor has prepared the next life. Its silence ends with its process, and with
    /// it this one.
    void wait_for_next_life() {
        enter(WorkerPhase::Waiting);
        while (page_->ready.load(std::memory_order_acquire) <= life_)
            std::this_thread::sleep_for(std::chrono::microseconds{200});
        life_ = page_->ready.load(std::memory_order_acquire);
        enter(WorkerPhase::Running);
    }

    /// Of the job's first start.
    int first_workers() const { return page_->records; }

    /// Throws TransportError when the slots cannot be opened, UsageError when launcher and supervisor disagree.
    StateSetting setting(std::size_t part, std::size_t parts, int size) {
        if (size != page_->workers)
            throw UsageError{"hvd: the supervisor started " + std::to_string(page_->workers) +
                             " workers and the launcher says " + std::to_string(size) +
                             "; start the program without a launcher"};
        StateSetting setting;
        setting.rank = record_->rank;
        setting.workers = page_->workers;
        setting.part = part;
        setting.parts = parts;
        setting.life = page_->life;
        setting.commit_every = page_->commit_every;
        std::vector<int> numbers;
        for (int r = 0; r < page_->records; ++r)
            for (const int slot : page_->record(r).slots) numbers.push_back(slot);
        setting.store = std::make_shared<StateStore>(address_.process, numbers);
        setting.origin = record_->origin;
        if (page_->has_state != 0) setting.saved = setting.store->read(page_->newest);
        if (record_->rank == 0)
            setting.committed = [page = page_](std::uint64_t number) { page->progress.committed(number); };
        return setting;
    }

private:
    static SupervisedWorker* from_environment() {
        const char* text = std::getenv(supervisor_variable);
        const auto launcher = launcher_info();
        SupervisorAddress address;
        if (text == nullptr || !launcher || !SupervisorAddress::read(text, address)) return nullptr;
        return new SupervisedWorker{address, address.record < 0 ? launcher->rank : address.record};
    }
    SupervisedWorker(SupervisorAddress address, int rank) : address_{address} {
        // Whatever started this process and is killed takes it along: the shell that reports its end.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            file_ = SlotFile::open(address.process, address.page);
            page_ = reinterpret_cast<ControlPage*>(file_.map());
        } catch (const TransportError&) {
        }
        if (page_ == nullptr || file_.mapped() < sizeof(ControlPage) || page_->magic != ControlPage::right_magic ||
            page_->life != address.life || rank >= page_->records) {
            std::fprintf(stderr, "hvd: the supervisor of this worker (process %d) is gone, so the worker ends\n",
                         address.process);
            ::_exit(1);
        }
        record_ = &page_->record(rank);
        record_->pid.store(static_cast<int>(::getpid()));
        enter(WorkerPhase::Launching);
        std::thread{[this] { beat(); }}.detach();
    }

    /// Counts, so that the supervisor sees that the process runs; and ends it when the supervisor is gone.
    void beat() {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the user's threads
        pollfd supervisor{open_process(address_.process), POLLIN, 0};
        const int milliseconds = page_->beat > 0 && page_->beat < 0.1 ? static_cast<int>(page_->beat * 1000) + 1 : 100;
        for (;;) {
            record_->pulse.fetch_add(1, std::memory_order_relaxed);
            const int ready = ::poll(&supervisor, supervisor.fd >= 0 ? 1 : 0, milliseconds);
            const bool is_gone = supervisor.fd >= 0 ? ready > 0 : ::kill(address_.process, 0) != 0 && errno == ESRCH;
            if (is_gone) ::_exit(1);
        }
    }

    SupervisorAddress address_;
    std::uint64_t life_ = address_.life;
    SlotFile file_;
    ControlPage* page_ = nullptr;
    WorkerRecord* record_ = nullptr;
};

}  // namespace hvd::detail
