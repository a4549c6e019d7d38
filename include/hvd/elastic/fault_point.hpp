// Fault points: the named places in the protocol of recovery at which a test may let a worker die.
#pragma once

#include <atomic>

namespace hvd::detail {

/// Called with the name of the place and the rank that has come there. Set by testing::FaultPoint; nothing otherwise.
using FaultHook = void (*)(const char* point, int rank);
inline std::atomic<FaultHook> fault_hook{nullptr};

/// One load when no test is looking.
inline void fault_point(const char* point, int rank) {
    if (const FaultHook hook = fault_hook.load(std::memory_order_acquire)) hook(point, rank);
}

/// How a worker that is a thread dies: it unwinds. Whoever started it hears of it first, so that what its destructors tell the
/// others is no surprise to them.
struct WorkerDeath {};

class DeathNotice {
public:
    virtual void dies(const char* cause) = 0;

protected:
    ~DeathNotice() = default;
};
inline thread_local DeathNotice* death_notice = nullptr;

[[noreturn]] inline void die_as_thread(const char* cause) {
    if (death_notice != nullptr) death_notice->dies(cause);
    throw WorkerDeath{};
}

}  // namespace hvd::detail
