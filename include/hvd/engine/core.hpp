// EngineCore: the rounds that all ranks go through together. Whoever holds it may drive it: a waiting caller, or the
// engine's own thread while the caller computes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hvd/core/serialize.hpp>
#include <hvd/engine/bucket_run.hpp>
#include <hvd/engine/notice.hpp>
#include <hvd/engine/options.hpp>
#include <hvd/engine/pending.hpp>
#include <hvd/engine/plan.hpp>
#include <hvd/engine/report.hpp>
#include <hvd/engine/stall.hpp>
#include <hvd/engine/timeline.hpp>

namespace hvd::detail {

/// A round begins with one exchange, in which each rank says which bucket of its plan it has ready, or that it wants to
/// talk. When all name the same bucket they carry it out. Otherwise all send reports of what they have, decide alike, and
/// carry out what they all have. A rank wants to talk when its caller waits for something whose bucket is incomplete.
template <class Comm>
class EngineCore {
public:
    using T = typename Comm::transport_type;

    /// Collective.
    EngineCore(const Comm& world, const EngineSettings& all)
        : settings{all},
          comm_{world.duplicate()},
          host_{comm_.host()},
          notices_{comm_.shared_context()},
          scratch_{comm_.template allocate_shared<unsigned char>(scratch_bytes)} {}

    const EngineSettings settings;
    Pending<Comm> pending;
    Timeline timeline;

    const Comm& comm() const { return comm_; }
    /// Takes things as far as they go without waiting. False when another thread is at it.
    bool drive() {
        const std::unique_lock lock{drive_mutex_, std::try_to_lock};
        if (!lock) return false;
        try {
            advance();
        } catch (...) {
            fail(std::current_exception());
        }
        is_active_.store(phase_ != Phase::Idle, std::memory_order_release);
        return true;
    }

    /// Throws as Pending::submit does.
    void submit(std::shared_ptr<Entry<Comm>> entry) {
        const std::uint64_t name = hash_bytes(hash_begin, entry->name());
        pending.submit(std::move(entry), comm_.rank(), comm_.size());
        notices_.submitted(name);
    }
    /// As Pending::resubmit.
    template <class Renew>
    bool resubmit(const std::string& name, Renew&& renew) {
        if (!pending.resubmit(name, renew)) return false;
        notices_.submitted(hash_bytes(hash_begin, name));
        return true;
    }

    bool is_active() const { return is_active_.load(std::memory_order_acquire); }

    /// Ends everything here, from outside.
    void give_up(std::exception_ptr error) {
        const std::scoped_lock lock{drive_mutex_};
        fail(std::move(error));
    }

    /// Ends everything here; called by who drives.
    void fail(std::exception_ptr error) {
        pending.fail_all(error);
        if (phase_ != Phase::Idle) --rounds_;  // the others may need more of it
        phase_ = Phase::Idle;
        exchange_.reset();
        run_.reset();
    }

    /// Ends this rank's part: completes what all have submitted as long as the others take part, and fails the rest; at once
    /// when an exception is on its way, whose cause must get out.
    void close(bool is_unwinding) {
        constexpr std::chrono::seconds patience{5};
        const auto began = Clock::now();
        Backoff backoff{32};
        is_closing_.store(true);
        while (!is_unwinding && !pending.has_failed() && (is_active() || wish() != Wish::Nothing) &&
               Clock::now() - began < patience) {
            drive();
            backoff.pause();
        }
        const std::scoped_lock lock{drive_mutex_};
        fail(std::make_exception_ptr(UsageError{located(
            "engine", comm_.rank(), comm_.size(), "it was destroyed while this was pending; wait for it first")}));
        tell(EngineNotice::Closed, {});
        notices_.close();
        timeline.stop();
    }

    PlanInfo plan() const {
        const std::scoped_lock lock{drive_mutex_};
        return describe(planner_, last_step_messages_);
    }

    void count_step() {
        const std::scoped_lock lock{drive_mutex_};
        planner_.count_step();
        last_step_messages_ = std::exchange(step_messages_, 0);
    }

    void begin_join() {
        const std::scoped_lock lock{drive_mutex_};
        is_joined_ = true;
        joined_at_ = rounds_;
        join_result_ = -1;
        pending.set_joined(true);
    }
    /// The last rank to join, once all have; -1 before.
    int join_result() const { return join_result_.load(std::memory_order_acquire); }

private:
    enum class Phase { Idle, Exchange, Reports, Run };
    static constexpr std::uint64_t talk_signature = 0x7461'6c6b;
    /// Between talks that bring nothing.
    static constexpr std::chrono::microseconds shortest_pause{200}, longest_pause{20000};
    static constexpr std::size_t scratch_bytes = std::size_t{1} << 20;

    void advance() {
        for (;;) {
            switch (phase_) {
                case Phase::Idle:
                    if (!begin_round()) return look_around();
                    break;
                case Phase::Exchange:
                    if (!exchange_->advance()) return look_around();
                    end_exchange();
                    break;
                case Phase::Reports:
                    if (!run_->advance()) return look_around();
                    read_reports();
                    break;
                case Phase::Run:
                    if (!advance_bucket()) return look_around();
                    break;
            }
        }
    }

    using Wish = typename Pending<Comm>::Wish;
    Wish wish() const {
        const bool submits_no_more = is_closing_.load() || comm_.transport().worker()->is_blocked();
        const Wish wish = pending.wish(submits_no_more);
        return wish == Wish::Talk && was_last_talk_.load() ? Wish::Nothing : wish;
    }

    bool begin_round() {
        if (pending.has_failed()) return false;
        const Wish wish = this->wish();
        if (wish == Wish::Nothing || (wish == Wish::Talk && Clock::now() < next_talk_)) return false;
        wants_bucket_ = wish == Wish::Bucket;
        ++rounds_;
        const std::uint64_t signature = wants_bucket_ ? planner_.next_signature() : talk_signature;
        exchange_.emplace(comm_.context().next_channel(), CallHeader{signature, 0}, comm_.context().board);
        phase_began_ = Clock::now();
        phase_ = Phase::Exchange;
        return true;
    }

    void end_exchange() {
        const bool agreed = exchange_->all_agree() && wants_bucket_;
        exchange_.reset();
        timeline.mark("CYCLE");
        if (agreed) {
            as_planned_ = true;
            agenda_.clear();
            agenda_.push_back(planner_.next());
            decision_ = Decision{};
            return begin_bucket();
        }
        as_planned_ = false;
        RankReport report{is_joined_ ? std::uint8_t{1} : std::uint8_t{0}, joined_at_, pending.report()};
        ByteWriter writer;
        const std::vector<std::byte> body = to_bytes(report);
        writer(body);
        own_report_ = writer.take();
        step_messages_ += 2 * static_cast<std::size_t>(comm_.size() - 1);
        run_ = std::make_unique<AllgatherTask<typename decltype(host_)::transport_type>>(
            host_.shared_context(),
            Input{own_report_.data(), own_report_.size(), scalar_info<unsigned char>, Rows{own_report_.size(), 1, {}}},
            Output::of_bytes(all_reports_, 1));
        phase_ = Phase::Reports;
        phase_began_ = Clock::now();
    }

    void read_reports() {
        run_.reset();
        ByteReader reader{all_reports_};
        std::vector<RankReport> reports(static_cast<std::size_t>(comm_.size()));
        for (RankReport& report : reports) {
            std::vector<std::byte> body;
            reader(body);
            from_bytes(body, report);
        }
        decision_ = decide(reports);
        lacking_ = ranks_without(reports[static_cast<std::size_t>(comm_.rank())], reports);
        if (decision_.all_joined) {
            is_joined_ = false;
            pending.set_joined(false);
            join_result_.store(decision_.last_joined, std::memory_order_release);
            phase_ = Phase::Idle;
            return;
        }
        for (const auto& [name, sentence] : decision_.failures)
            pending.finish(name, std::make_exception_ptr(MismatchError{sentence}));
        std::vector<Agreed> operations;
        metadata_.clear();
        for (const Metadata& m : decision_.run) {
            operations.push_back({m.name, m.signature, m.fuse_key, m.bytes, m.place});
            metadata_.emplace(m.name, m);
        }
        agenda_ = planner_.talked(make_buckets(operations, settings.fusion_threshold, settings.first_bucket),
                                  decision_.all_alike && decision_.failures.empty());
        pending.follow(planner_);
        if (agenda_.empty()) {
            if (decision_.failures.empty()) {
                was_last_talk_.store(is_closing_.load());
                next_talk_ = Clock::now() + talk_pause_;
                talk_pause_ = std::min(2 * talk_pause_, longest_pause);
            }
            phase_ = Phase::Idle;
            return;
        }
        begin_bucket();
    }

    void begin_bucket() {
        phase_ = Phase::Run;
        phase_began_ = Clock::now();
        const Bucket& bucket = *agenda_.front();
        const Channel<T> channel = comm_.context().next_channel();
        current_ = as_planned_ ? pending.take_next() : pending.take(bucket);
        const bool some_joined = !as_planned_ && decision_.participants < comm_.size();
        if constexpr (DeviceTransport<T>) {
            run_ = start_on_device(comm_, channel, current_);
        } else if (!some_joined && current_.size() > 1) {
            run_ = std::make_unique<FusedRun<Comm>>(
                comm_, channel, current_, std::span{reinterpret_cast<std::byte*>(scratch_.data()), scratch_.size()});
        } else if (!some_joined) {
            run_ = current_[0]->start(comm_, channel);
        } else {
            run_ = start_around_joined(comm_, channel, bucket, metadata_, decision_.joined,
                                       is_joined_ ? nullptr : &current_);
        }
    }

    /// A UsageError is one that all ranks get from the same operation, by its checks: it ends that, and not the engine.
    bool advance_bucket() {
        std::exception_ptr error;
        try {
            if (!run_->advance()) return false;
        } catch (const UsageError&) {
            error = std::current_exception();
        }
        end_bucket(error);
        return true;
    }

    void end_bucket(const std::exception_ptr& error) {
        run_.reset();
        const auto now = Clock::now();
        if (timeline.is_on())
            for (const auto& entry : current_) {
                timeline.span(entry->name(), "WAIT", entry->submitted, phase_began_);
                timeline.span(entry->name(), entry->metadata().text.c_str(), phase_began_, now);
            }
        if (as_planned_) {
            const std::size_t steps = planner_.reused() + planner_.made();
            planner_.went_as_planned();
            if (planner_.reused() + planner_.made() != steps) last_step_messages_ = std::exchange(step_messages_, 0);
            pending.follow(planner_);
        }
        has_warned_ = false;
        talk_pause_ = shortest_pause;
        recent_ = agenda_.front()->members.back().name;
        pending.finish(current_, error);
        agenda_.erase(agenda_.begin());
        if (!agenda_.empty()) return begin_bucket();
        phase_ = Phase::Idle;
    }

    /// While nothing moves: has another rank given up, and has this one waited too long?
    void look_around() {
        if (++looks_ % 64 != 0) return;
        EngineNotice notice;
        if (notices_.receive(notice)) hear(notice);
        check_for_the_gone();
        const auto now = Clock::now();
        if (is_joined_ || (phase_ == Phase::Idle && wish() != Wish::Talk)) return;
        const auto since = pending.oldest(now);
        const std::chrono::duration<double> waited =
            now - (phase_ == Phase::Idle ? since : std::max(since, phase_began_));
        const auto text = [&] {
            if (run_) return under_way_text(pending.names(6), run_->waiting_for(), waited);
            const std::vector<int> missing = exchange_ ? exchange_->missing() : std::vector<int>{};
            return stall_text(pending, notices_, missing.empty() ? lacking_ : missing, waited, recent_);
        };
        if (settings.stall_warning.count() > 0 && waited >= settings.stall_warning && !has_warned_) {
            has_warned_ = true;
            if (speaks_for_those_who_wait()) std::fprintf(stderr, "%s\n", text().c_str());
        }
        if (settings.stall_abort.count() > 0 && waited >= settings.stall_abort) {
            const std::string all = text() + "; the engine gave up";
            tell(EngineNotice::Failure, all, true);
            fail(std::make_exception_ptr(StallError{all}));
        }
    }

    /// Tells the other engines that this one ends, and why.
    void tell(std::uint64_t kind, const std::string& text, bool is_stall = false) {
        EngineNotice notice{kind, static_cast<std::uint64_t>(comm_.rank()), rounds_, is_stall};
        CallText::copy(notice.text, sizeof notice.text, text);
        notices_.send(notice);
    }

    void hear(const EngineNotice& notice) {
        if (notice.kind == EngineNotice::Failure) {
            if (notices_.passes_on()) notices_.send(notice);
            return fail(notice.is_stall != 0 ? std::make_exception_ptr(StallError{notice.text})
                                             : std::make_exception_ptr(TransportError{notice.text}));
        }
        closed_.push_back(notice);
    }

    /// A rank is needed for this round and its engine is gone. One that took part in it first has done its share.
    void check_for_the_gone() {
        if (phase_ == Phase::Idle) return;
        for (const EngineNotice& n : closed_) {
            if (n.rounds >= rounds_) continue;
            const std::string text = "hvd: the engine of rank " + std::to_string(n.rank) + " is gone, so " +
                                     pending.names(6) + " cannot be carried out; build a new one on all ranks";
            tell(EngineNotice::Failure, text);
            return fail(std::make_exception_ptr(TransportError{text}));
        }
    }

    /// The lowest rank that has come, where that can be seen.
    bool speaks_for_those_who_wait() const {
        return !exchange_ || comm_.context().board == nullptr || lowest_not_in(exchange_->missing()) == comm_.rank();
    }

    mutable std::mutex drive_mutex_;
    Comm comm_;
    decltype(std::declval<const Comm&>().host()) host_;
    NoticeBoard<T> notices_;
    SharedArray<unsigned char> scratch_;
    Planner planner_;
    Phase phase_ = Phase::Idle;
    std::atomic<bool> is_active_ = false, is_closing_ = false;
    std::atomic<bool> was_last_talk_ = false;  // while closing: the others do not have what is pending here
    std::optional<Exchange<T>> exchange_;
    bool wants_bucket_ = false, as_planned_ = false, has_warned_ = false;
    std::uint64_t rounds_ = 0;
    Clock::time_point phase_began_{}, next_talk_{};
    std::vector<std::byte> own_report_, all_reports_;
    Decision decision_;
    std::unordered_map<std::string, Metadata> metadata_;
    std::vector<std::shared_ptr<const Bucket>> agenda_;
    Entries<Comm> current_;
    std::unique_ptr<Operation> run_;
    bool is_joined_ = false;
    std::uint64_t joined_at_ = 0;
    std::atomic<int> join_result_ = -1;
    std::size_t step_messages_ = 0, last_step_messages_ = 0;
    std::vector<EngineNotice> closed_;
    std::string recent_;
    std::vector<int> lacking_;  // ranks that did not have all that this one has, when they talked last
    std::chrono::microseconds talk_pause_ = shortest_pause;
    unsigned looks_ = 0;
};

}  // namespace hvd::detail
