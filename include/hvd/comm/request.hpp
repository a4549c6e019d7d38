// Request: an asynchronous operation in the hands of its caller.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <hvd/transport/worker.hpp>

namespace hvd {
namespace detail {

/// The end of an operation that somebody else takes further, and its failure, kept for whoever waits.
class Completion {
public:
    explicit Completion(std::string what) : what_{std::move(what)} {}
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;
    virtual ~Completion() = default;

    bool is_done() const { return done_.load(std::memory_order_acquire); }
    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }
    void complete(std::exception_ptr error = nullptr) {
        if (is_done()) return;
        error_ = std::move(error);
        done_.store(true, std::memory_order_release);
    }
    /// "allreduce_async on rank 0 of 4"
    virtual std::string what() const { return what_; }

    /// Takes the operation further, as far as that is this thread's business.
    virtual void progress() = 0;
    /// Somebody waits now, or no longer.
    virtual void begin_wait() {}
    virtual void end_wait() {}
    /// Somebody has waited to the end.
    virtual void waited() {}
    /// A wait for it was given up because of `error`, which is not its own.
    virtual void give_up(const std::exception_ptr&) {}
    /// Nobody will look at it any more, and its tensors are about to go.
    virtual void abandon() = 0;

private:
    std::string what_;
    std::exception_ptr error_;
    std::atomic<bool> done_ = false;
};

/// An operation that the worker advances.
class Task final : public Completion, public Operation {
public:
    Task(std::unique_ptr<Operation> body, std::string what, Worker& worker)
        : Completion{std::move(what)}, body_{std::move(body)}, worker_{worker} {}

    bool advance() override {
        if (is_done()) return true;
        std::exception_ptr error;
        try {
            if (!body_->advance()) return false;
        } catch (...) {
            error = std::current_exception();
        }
        body_.reset();
        complete(std::move(error));
        return true;
    }
    int waiting_for() const override { return body_ ? body_->waiting_for() : -1; }
    void progress() override { worker_.progress(); }
    void abandon() override {
        body_.reset();
        complete();
    }

private:
    std::unique_ptr<Operation> body_;
    Worker& worker_;
};

}  // namespace detail

/// What the `_async` calls and the engine return. The tensors of the call must outlive it. Destroying an unfinished one
/// waits, except while an exception is on its way: then the operation is withdrawn.
class [[nodiscard]] Request {
public:
    Request() = default;
    Request(std::shared_ptr<detail::Worker> worker, std::shared_ptr<detail::Completion> completion)
        : worker_{std::move(worker)}, completion_{std::move(completion)}, exceptions_{std::uncaught_exceptions()} {}
    Request(Request&&) noexcept = default;
    Request& operator=(Request&& other) noexcept {
        if (this == &other) return *this;
        finish();
        worker_ = std::move(other.worker_);
        completion_ = std::move(other.completion_);
        exceptions_ = other.exceptions_;
        return *this;
    }
    ~Request() { finish(); }

    /// Whether the operation has ended, well or badly. Makes progress; never blocks.
    bool ready() {
        if (!completion_ || completion_->is_done()) return true;
        completion_->progress();
        return completion_->is_done();
    }

    /// Waits for the end and throws what went wrong, if anything. Any number of times.
    void wait() {
        if (!completion_) return;
        if (!completion_->is_done()) {
            const Waiting waiting{*completion_};
            try {
                worker_->wait_until([&] { return ready(); }, [&] { return completion_->what(); });
            } catch (...) {
                completion_->give_up(std::current_exception());
                throw;
            }
        }
        completion_->rethrow();
        completion_->waited();
    }

    /// The same as wait().
    void get() { wait(); }

private:
    struct Waiting {
        detail::Completion& completion;
        explicit Waiting(detail::Completion& c) : completion{c} { completion.begin_wait(); }
        ~Waiting() { completion.end_wait(); }
    };

    void finish() noexcept {
        if (!completion_ || completion_->is_done()) return;
        if (std::uncaught_exceptions() > exceptions_) {
            completion_->abandon();
            return;
        }
        try {
            wait();
        } catch (...) {  // nobody is left to hear it
            completion_->abandon();
        }
    }

    std::shared_ptr<detail::Worker> worker_;
    std::shared_ptr<detail::Completion> completion_;
    int exceptions_ = 0;
};

}  // namespace hvd
