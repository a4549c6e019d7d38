// Pending: the operations that this rank has submitted and that are not complete, and how far the next bucket has come.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hvd/engine/bucket_run.hpp>
#include <hvd/engine/plan.hpp>

namespace hvd::detail {

/// May be used from several threads. Completion of an entry happens here, and nowhere else.
template <class Comm>
class Pending {
public:
    using Item = std::shared_ptr<Entry<Comm>>;
    using TimePoint = std::chrono::steady_clock::time_point;

    /// Throws UsageError when the name is pending already, and what the engine failed of when it has.
    void submit(Item entry, int rank, int size) {
        const std::scoped_lock lock{mutex_};
        if (failure_) std::rethrow_exception(failure_);
        if (is_joined_)
            throw UsageError{located("engine operation '" + entry->name() + "'", rank, size,
                                     "this rank has joined; submit again when join() has returned")};
        const std::string& name = entry->name();
        const auto [place, is_new] = slots_.try_emplace(name);
        Slot& slot = place->second;
        if (!is_new && slot.entry)
            throw UsageError{located("engine operation '" + name + "'", rank, size,
                                     "it is submitted again before it is complete; wait for the first")};
        put(slot, std::move(entry));
    }

    /// Submits the entry that this name had before once more, if there is one and `renew(entry)` agrees.
    template <class Renew>
    bool resubmit(const std::string& name, Renew&& renew) {
        const std::scoped_lock lock{mutex_};
        if (failure_ || is_joined_) return false;
        const auto found = slots_.find(name);
        if (found == slots_.end() || !found->second.spare || found->second.entry) return false;
        Slot& slot = found->second;
        if (slot.spare.use_count() != 1 || !renew(*slot.spare)) return false;
        put(slot, std::move(slot.spare));
        return true;
    }

    /// Waiting for an entry makes this rank talk when the entry's bucket is incomplete.
    void begin_wait(const Completion& completion, int& waiters) {
        const std::scoped_lock lock{mutex_};
        if (completion.is_done()) return;
        ++waiters;
        ++waits_;
    }
    void end_wait(int& waiters) {
        const std::scoped_lock lock{mutex_};
        if (waiters == 0) return;
        --waiters;
        --waits_;
    }

    /// What this rank would do next. One look under one lock: between two looks the caller may submit what was missing and
    /// begin to wait for it, and that is no reason to talk.
    enum class Wish { Nothing, Bucket, Talk };
    /// `is_blocked`: this worker waits elsewhere and will submit nothing more for now.
    Wish wish(bool is_blocked) const {
        const std::scoped_lock lock{mutex_};
        if (is_complete()) return Wish::Bucket;
        return waits_ > 0 || is_joined_ || (is_blocked && count_ > 0) ? Wish::Talk : Wish::Nothing;
    }
    bool has_failed() const {
        const std::scoped_lock lock{mutex_};
        return failure_ != nullptr;
    }
    void rethrow_failure() const {
        const std::scoped_lock lock{mutex_};
        if (failure_) std::rethrow_exception(failure_);
    }
    void set_joined(bool joined) {
        const std::scoped_lock lock{mutex_};
        is_joined_ = joined;
    }

    /// What this rank has, in the order submitted.
    std::vector<Metadata> report() const {
        const std::scoped_lock lock{mutex_};
        std::vector<const Slot*> slots;
        for (const auto& [name, slot] : slots_)
            if (slot.entry) slots.push_back(&slot);
        std::sort(slots.begin(), slots.end(), [](const Slot* a, const Slot* b) { return a->sequence < b->sequence; });
        std::vector<Metadata> all;
        for (const Slot* slot : slots) all.push_back(slot->entry->metadata());
        return all;
    }

    /// The entries of a bucket that all have; none on a rank that has joined.
    Entries<Comm> take(const Bucket& bucket) const {
        const std::scoped_lock lock{mutex_};
        Entries<Comm> entries;
        for (const Agreed& m : bucket.members) {
            const auto found = slots_.find(m.name);
            if (found != slots_.end() && found->second.entry) entries.push_back(found->second.entry);
        }
        return entries;
    }

    /// The entries of the bucket that is next in the plan, which is complete.
    Entries<Comm> take_next() const {
        const std::scoped_lock lock{mutex_};
        Entries<Comm> entries;
        entries.reserve(members_[position_].size());
        for (const Slot* slot : members_[position_]) entries.push_back(slot->entry);
        return entries;
    }

    /// Leaves nothing in `entries`, so that they can be used again.
    void finish(Entries<Comm>& entries, const std::exception_ptr& error) {
        const std::scoped_lock lock{mutex_};
        for (Item& entry : entries) {
            Slot& slot = *static_cast<Slot*>(entry->slot);
            entry.reset();
            finish_locked(slot, error);
        }
        entries.clear();
    }
    void finish(const std::string& name, std::exception_ptr error) {
        const std::scoped_lock lock{mutex_};
        if (const auto found = slots_.find(name); found != slots_.end()) finish_locked(found->second, std::move(error));
    }
    void fail_all(const std::exception_ptr& error) {
        const std::scoped_lock lock{mutex_};
        if (!failure_) failure_ = error;
        std::vector<std::string> names;  // finished slots may leave the table
        for (const auto& [name, slot] : slots_) names.push_back(name);
        for (const std::string& name : names) finish_locked(slots_.at(name), failure_);
    }

    /// The plan or the place in it has changed.
    void follow(const Planner& planner) {
        const std::scoped_lock lock{mutex_};
        if (planner.made() != plan_seen_) {
            plan_seen_ = planner.made();
            for (auto& [name, slot] : slots_) slot.bucket = none;
            missing_.clear();
            members_.clear();
            for (const auto& bucket : planner.buckets()) {
                std::vector<Slot*>& members = members_.emplace_back();
                for (const Agreed& m : bucket->members) {
                    Slot& slot = slots_[m.name];
                    slot.bucket = missing_.size();
                    slot.signature = m.signature;
                    members.push_back(&slot);
                }
                missing_.push_back(bucket->members.size());
            }
            std::erase_if(slots_, [](const auto& s) { return !s.second.entry && s.second.bucket == none; });
            for (auto& [name, slot] : slots_) {
                slot.is_counted = false;
                if (slot.entry) arrive(slot);
            }
        }
        position_ = planner.position();
        if (is_complete()) wake_.notify_all();
    }

    TimePoint oldest(TimePoint otherwise) const {
        const std::scoped_lock lock{mutex_};
        for (const auto& [name, slot] : slots_)
            if (slot.entry && slot.entry->submitted < otherwise) otherwise = slot.entry->submitted;
        return otherwise;
    }
    std::string names(std::size_t most) const {
        const std::scoped_lock lock{mutex_};
        std::string text;
        std::size_t n = 0;
        for (const auto& [name, slot] : slots_) {
            if (!slot.entry) continue;
            if (n < most) text += (n > 0 ? ", '" : "'") + name + "'";
            ++n;
        }
        return n > most ? text + " and " + std::to_string(n - most) + " more" : text;
    }

    /// The name that has this hash, of a tensor in the plan or submitted here; empty when there is none.
    std::string name_of(std::uint64_t hash) const {
        const std::scoped_lock lock{mutex_};
        for (const auto& [name, slot] : slots_)
            if (hash_bytes(hash_begin, name) == hash) return name;
        return {};
    }

    /// For the engine's thread: sleeps until there is something to do without the caller, at most for `time`.
    template <class Stop>
    void sleep(std::chrono::microseconds time, Stop&& stop) {
        std::unique_lock lock{mutex_};
        wake_.wait_for(lock, time, [&] { return stop() || (is_complete() && waits_ == 0); });
    }
    void wake() {
        const std::scoped_lock lock{mutex_};
        wake_.notify_all();
    }
    bool somebody_waits() const {
        const std::scoped_lock lock{mutex_};
        return waits_ > 0;
    }

    /// Completions in the order submitted, to be waited for.
    std::vector<std::shared_ptr<Completion>> completions() const {
        const std::scoped_lock lock{mutex_};
        std::vector<std::shared_ptr<Completion>> all;
        for (const auto& [name, slot] : slots_)
            if (slot.entry) all.push_back(slot.entry->shared_completion());
        return all;
    }

private:
    static constexpr std::size_t none = ~std::size_t{0};

    struct Slot {
        Item entry, spare{};  // the one that is pending; the last one, to be used again
        std::uint64_t sequence = 0;
        std::size_t bucket = none;    // of the plan
        std::uint64_t signature = 0;  // that the plan expects
        bool is_counted = false;
    };

    bool is_complete() const { return position_ < missing_.size() && missing_[position_] == 0; }

    void put(Slot& slot, Item entry) {
        entry->slot = &slot;
        slot.entry = std::move(entry);
        slot.sequence = next_sequence_++;
        ++count_;
        arrive(slot);
        if (is_complete()) wake_.notify_all();
    }

    void arrive(Slot& slot) {
        if (slot.bucket == none || slot.signature != slot.entry->metadata().signature || slot.is_counted) return;
        slot.is_counted = true;
        --missing_[slot.bucket];
    }

    void finish_locked(Slot& slot, std::exception_ptr error) {
        if (!slot.entry) return;
        if (slot.is_counted) {
            slot.is_counted = false;
            ++missing_[slot.bucket];
        }
        Item entry = std::move(slot.entry);
        slot.entry.reset();
        --count_;
        auto& completion = static_cast<EngineCompletionBase&>(entry->completion());
        waits_ -= completion.waiters;
        completion.waiters = 0;
        completion.complete(std::move(error));
        entry->set_completion(nullptr);
        if (slot.bucket == none) slots_.erase(std::string{entry->name()});
        else if (entry->kind() != nullptr) slot.spare = std::move(entry);
    }

    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::unordered_map<std::string, Slot> slots_;
    std::vector<std::size_t> missing_;         // entries, by bucket of the plan
    std::vector<std::vector<Slot*>> members_;  // likewise
    std::size_t position_ = 0, plan_seen_ = 0, count_ = 0;
    std::uint64_t next_sequence_ = 0;
    int waits_ = 0;
    bool is_joined_ = false;
    std::exception_ptr failure_;
};

}  // namespace hvd::detail
