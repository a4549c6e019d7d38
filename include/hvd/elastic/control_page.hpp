// ControlPage: what the supervisor of a job and its workers tell each other, in memory that they share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hvd/elastic/keeper.hpp>
#include <hvd/elastic/slot_file.hpp>

namespace hvd::detail {

/// How far a worker is. Whoever ends before Leaving is dead, unless it threw.
enum class WorkerPhase : std::uint32_t {
    Absent,
    Launching,
    Running,   // has a part in the job: makes its world, or is in the body
    Waiting,   // has left the body for the next life
    Leaving,   // has returned from it, perhaps before others
    Returned,  // in the program's code after launch
    Exiting,   // in the end of MPI
    Threw,
};

struct alignas(64) WorkerRecord {
    std::atomic<int> pid;
    std::atomic<WorkerPhase> phase;
    std::atomic<std::uint64_t> pulse;         // its sign of life
    std::atomic<std::uint32_t> is_transport;  // what it threw may be the consequence of another's end
    std::atomic<std::int64_t> thrown;         // when
    int rank, origin;                         // in this life; see StateSetting
    int member;                               // the record of the rank with this record's number, in this life
    int slots[2];                             // of the rank with this record's number; see StateStore
    char text[1024];                          // of what it threw
    char table[1024];                         // by which Auto decides in a job of rank + 1 workers, for its later lives
};

/// Zero at first. The supervisor writes the head before a life begins, each worker its record, whose number is its rank in
/// the launcher's job.
struct ControlPage {
    std::uint64_t magic, life, has_state, commit_every;
    CommitKey newest;                          // where there is state
    std::int32_t workers, records, newcomers;  // the last of the workers, who join the others with this life
    double beat;                               // seconds between signs of life; 0: none are wanted
    Progress progress;
    // In place: the life that workers are to leave theirs for, and the one that is prepared for them.
    std::atomic<std::uint64_t> wanted, ready;
    char reports[64], hold[64];  // for the shells of newcomers; see reporting_script

    static constexpr std::uint64_t right_magic = 0x6876642d70616765;

    static std::size_t bytes(int records) {
        return sizeof(ControlPage) + 64 + static_cast<std::size_t>(records) * sizeof(WorkerRecord);
    }
    WorkerRecord& record(int rank) {
        auto address = reinterpret_cast<std::uintptr_t>(this + 1);
        address = (address + 63) / 64 * 64;
        return reinterpret_cast<WorkerRecord*>(address)[rank];
    }
    /// For a process that has not started yet.
    static void clear(WorkerRecord& r) {
        r.pid.store(0);
        r.phase.store(WorkerPhase::Absent);
        r.pulse.store(0);
        r.is_transport.store(0);
        r.thrown.store(0);
        r.text[0] = '\0';
    }
    void clear_records() {
        for (int rank = 0; rank < records; ++rank) clear(record(rank));
    }
};

/// HVD_SUPERVISOR: where a worker finds the page.
inline constexpr const char* supervisor_variable = "HVD_SUPERVISOR";

struct SupervisorAddress {
    int process = 0, page = 0, launch = 0;  // launch: which of those that the program calls, from 1
    unsigned long long life = 0;
    int in_place = 0, record = -1;  // record: of a worker that joins a running job

    std::string text() const {
        return std::to_string(process) + ":" + std::to_string(page) + ":" + std::to_string(launch) + ":" +
               std::to_string(life) + ":" + std::to_string(in_place) + ":" + std::to_string(record);
    }
    static bool read(const char* text, SupervisorAddress& a) {
        return std::sscanf(text, "%d:%d:%d:%llu:%d:%d", &a.process, &a.page, &a.launch, &a.life, &a.in_place,
                           &a.record) == 6;
    }
};

}  // namespace hvd::detail
