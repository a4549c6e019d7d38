// Keeper: holds the state of a job over the lives of its workers, on the side of whoever starts them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hvd/elastic/checkpoint_file.hpp>
#include <hvd/elastic/recovery.hpp>
#include <hvd/elastic/state_registry.hpp>

namespace hvd::detail {

/// How far the job is, told by rank 0 at each commit. Lies in shared memory: zero is its beginning.
struct Progress {
    std::atomic<std::uint64_t> sequence;
    std::atomic<std::int64_t> first, last;  // commits of this life, by the steady clock in nanoseconds; 0: none

    static std::int64_t now() {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }
    void committed(std::uint64_t number) {
        const std::int64_t time = now();
        sequence.store(number, std::memory_order_relaxed);
        if (first.load(std::memory_order_relaxed) == 0) first.store(time, std::memory_order_relaxed);
        last.store(time, std::memory_order_relaxed);
    }
};

class Keeper {
public:
    /// Throws UsageError when the options make no sense, TransportError without memory.
    Keeper(const LaunchOptions& options, int workers, Progress& progress)
        : options_{options},
          recovery_{options, checked(options, workers)},
          progress_{progress},
          file_{options.checkpoint},
          first_workers_{workers} {
        if (options.elastic || !options.checkpoint.empty()) store_ = std::make_shared<StateStore>(workers);
    }

    const std::shared_ptr<StateStore>& store() const { return store_; }
    Recovery& recovery() { return recovery_; }
    int workers() const { return recovery_.workers(); }
    std::uint64_t life() const { return life_; }
    const std::optional<CommitKey>& newest() const { return newest_; }

    /// Before workers start.
    void begin_life() {
        ++life_;
        if (store_) newest_ = store_->newest();
        progress_.first.store(0, std::memory_order_relaxed);
        if (newest_) progress_.sequence.store(newest_->sequence, std::memory_order_relaxed);
    }

    /// For a worker that is a thread of this process.
    StateSetting setting(int rank) {
        StateSetting setting;
        setting.rank = rank;
        setting.workers = workers();
        setting.part = static_cast<std::size_t>(rank);
        setting.parts = static_cast<std::size_t>(workers());
        setting.life = life_;
        setting.commit_every = static_cast<std::uint64_t>(options_.commit_every);
        setting.store = store_;
        setting.origin = recovery_.origins()[static_cast<std::size_t>(rank)];
        if (newest_) {
            setting.saved = store_->read(*newest_);
        } else if (const CheckpointImage image = checkpoint()) {
            setting.saved = open_checkpoint(image, options_.checkpoint);
            if (setting.saved->workers != first_workers_) setting.origin = -1;
        }
        return setting;
    }

    /// After all workers of a life have ended or left it, and some were lost. Returns the sentence with which the job ends, or
    /// nothing. `shrinks` as in Recovery.
    std::string end_life(const std::vector<Loss>& losses, bool shrinks) {
        note_progress();
        last_commit_ = progress_.last.load(std::memory_order_relaxed);
        if (last_commit_ == 0) last_commit_ = began_;
        progress_.first.store(0, std::memory_order_relaxed);
        newest_ = store_->newest();
        return recovery_.lose(losses, newest_ && newest_->life == life_, shrinks);
    }
    /// The same, when all start anew, with as many as at first unless the job shrinks.
    std::string end_life(const std::vector<Loss>& losses) {
        const bool shrinks = options_.on_failure == OnFailure::Shrink;
        std::string sentence = end_life(losses, shrinks);
        if (!shrinks && workers() < first_workers_) recovery_.gain(first_workers_ - workers(), false);
        return sentence;
    }
    /// After all workers of a life have left it: others join them in the next.
    void gain(int workers) {
        note_progress();
        newest_ = store_->newest();
        recovery_.gain(workers, newest_ && newest_->life == life_);
    }
    /// The life that runs has committed something.
    bool has_committed() const { return progress_.first.load(std::memory_order_relaxed) != 0; }
    int first_workers() const { return first_workers_; }

    /// After the last life: writes the checkpoint, if one is wanted, and the report, if there is something to report.
    /// Returns the exit code.
    int end_job(int code) {
        note_progress();
        if (store_ && !options_.checkpoint.empty()) {
            try {
                write_state(code);
            } catch (const Error& e) {
                std::fprintf(stderr, "%s\n", e.what());
                code = code == 0 ? 1 : code;
            }
        }
        if (recovery_.has_lost()) std::fprintf(stderr, "%s\n", recovery_.report().c_str());
        return code;
    }

private:
    static int checked(const LaunchOptions& options, int workers) {
        const auto wrong = [](const std::string& text) { throw UsageError{"hvd: launch: " + text}; };
        if (options.commit_every < 1) wrong("commit_every is less than 1; give the number of steps between commits");
        if (!options.elastic) return workers;
        if (options.min_workers < 1 || options.min_workers > workers)
            wrong("min_workers is " + std::to_string(options.min_workers) + " and there are " +
                  std::to_string(workers) + " workers; give 1 to that many");
        if (options.max_workers != 0 && options.max_workers < workers)
            wrong("max_workers is " + std::to_string(options.max_workers) + " and " + std::to_string(workers) +
                  " are to start; raise it, or start fewer");
        if (!(options.deadline.count() >= 0)) wrong("deadline is negative; give seconds, or 0 for none");
        if (!(options.rejoin_timeout.count() >= 0)) wrong("rejoin_timeout is negative; give seconds");
        if (options.max_failures < 0) wrong("max_failures is negative; give 0 or more");
        return workers;
    }

    void note_progress() {
        const std::int64_t first = progress_.first.load(std::memory_order_relaxed);
        if (last_commit_ != 0 && first > last_commit_)
            recovery_.went_on_after(static_cast<double>(first - last_commit_) * 1e-9);
        last_commit_ = 0;
    }

    /// What is in the file, if there is one. Read once, by whoever comes first. Throws DataError.
    CheckpointImage checkpoint() {
        if (options_.checkpoint.empty()) return nullptr;
        const std::scoped_lock lock{file_mutex_};
        if (!has_read_) {
            has_read_ = true;
            try {
                image_ = file_.read().value_or(nullptr);
            } catch (const DataError&) {
                file_error_ = std::current_exception();
            }
        }
        if (file_error_) std::rethrow_exception(file_error_);
        return image_;
    }

    void write_state(int code) {
        newest_ = store_->newest();
        if (!newest_) return;
        file_.write(store_->read(*newest_));
        if (code != 0)
            std::fprintf(stderr, "hvd: the state after commit %llu is in %s, from which the next start goes on\n",
                         static_cast<unsigned long long>(newest_->sequence), options_.checkpoint.c_str());
    }

    LaunchOptions options_;
    Recovery recovery_;
    Progress& progress_;
    CheckpointFile file_;
    std::mutex file_mutex_;
    CheckpointImage image_;
    std::exception_ptr file_error_;
    bool has_read_ = false;
    int first_workers_;
    std::shared_ptr<StateStore> store_;
    std::uint64_t life_ = 0;
    std::optional<CommitKey> newest_;
    std::int64_t began_ = Progress::now(), last_commit_ = 0;
};

}  // namespace hvd::detail
