// LaunchOptions: how many workers, on which nodes, and what happens when one is lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace hvd {

/// What becomes of a lost worker: another takes its place, or the rest go on.
enum class OnFailure { Replace, Shrink };

/// What a job that goes on after deaths is told; see LaunchOptions::on_recovery.
struct Recovered {
    int workers = 0;            ///< that go on
    int before = 0;             ///< that made the commit from which they go on
    std::uint64_t commits = 0;  ///< of the job, up to that one
};

/// Options of `launch`. The order of the fields is public; new ones go to the end.
struct LaunchOptions {
    /// 0: the number that the MPI launcher started, or HVD_WORKERS, or one per core.
    int workers = 0;
    /// More than 0: pretend nodes of this many ranks. 0: the real nodes.
    int ranks_per_node = 0;
    /// Training goes on when a worker dies: what has been committed is kept, and the body is entered again (docs/faults.md).
    bool elastic = false;
    /// With fewer the job ends, with a checkpoint if there is a file for it.
    int min_workers = 1;
    /// 0: `workers`.
    int max_workers = 0;
    OnFailure on_failure = OnFailure::Replace;
    /// Deaths after which the job ends.
    int max_failures = 100;
    /// How long a worker may give no sign of life. 0: for ever.
    std::chrono::duration<double> deadline{30};
    /// How long the supervisor tries to start enough workers again.
    std::chrono::duration<double> rejoin_timeout{60};
    /// File to write at the end and to resume from; empty: none.
    std::string checkpoint{};
    /// See CommunicatorOptions.
    bool checks = true;
    /// Steps per commit: after a death at most `commit_every` steps are done again, the one in flight and those since the last
    /// commit.
    int commit_every = 1;
    /// Where a supervisor starts the workers, as mpiexec's -hosts takes it: "a:4,b:4". Empty: this machine.
    std::string hosts{};
    /// Called on every worker, before its body, each time that the job goes on from a commit after deaths: the state that the
    /// constructors in the body will restore is settled then, and equal on all. What it throws ends the job.
    std::function<void(const Recovered&)> on_recovery{};
};

}  // namespace hvd
