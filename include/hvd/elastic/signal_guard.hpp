// SignalGuard: signals as data.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <hvd/core/descriptor.hpp>

namespace hvd::detail {

/// Signals that are meant for the job come to this process as data, for as long as it supervises.
class SignalGuard {
public:
    SignalGuard() {
        sigset_t signals;
        sigemptyset(&signals);
        for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&signals, s);
        ::sigprocmask(SIG_BLOCK, &signals, &before_);
        file_ = Descriptor{::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
    }
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;
    ~SignalGuard() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

    const sigset_t& before() const { return before_; }
    int file() const { return file_.number(); }
    /// The next one, or 0.
    int take() {
        signalfd_siginfo info;
        return ::read(file_.number(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
    }

private:
    sigset_t before_;
    Descriptor file_;
};

}  // namespace hvd::detail
