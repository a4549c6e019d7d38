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

/// An operation that the worker advances. Keeps its failure for whoever waits.
class Task final : public Operation {
public:
    Task(std::unique_ptr<Operation> body, std::string what) : body_{std::move(body)}, what_{std::move(what)} {}

    bool advance() override {
        if (is_done()) return true;
        try {
            if (!body_->advance()) return false;
        } catch (...) {
            error_ = std::current_exception();
        }
        body_.reset();
        done_.store(true, std::memory_order_release);
        return true;
    }
    int waiting_for() const override { return body_ ? body_->waiting_for() : -1; }

    bool is_done() const { return done_.load(std::memory_order_acquire); }
    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }
    /// Gives up: what is under way is withdrawn.
    void abandon() {
        body_.reset();
        done_.store(true, std::memory_order_release);
    }
    const std::string& what() const { return what_; }

private:
    std::unique_ptr<Operation> body_;
    std::string what_;
    std::exception_ptr error_;
    std::atomic<bool> done_ = false;
};

}  // namespace detail

/// What the `_async` calls return. The tensors of the call must outlive it. Destroying an unfinished one waits, except
/// while an exception is on its way: then the operation is withdrawn. Used by the thread that made the call.
class [[nodiscard]] Request {
public:
    Request() = default;
    Request(std::shared_ptr<detail::Worker> worker, std::shared_ptr<detail::Task> task)
        : worker_{std::move(worker)}, task_{std::move(task)}, exceptions_{std::uncaught_exceptions()} {}
    Request(Request&&) noexcept = default;
    Request& operator=(Request&& other) noexcept {
        finish();
        worker_ = std::move(other.worker_);
        task_ = std::move(other.task_);
        exceptions_ = other.exceptions_;
        return *this;
    }
    ~Request() { finish(); }

    /// Whether the operation has ended, well or badly. Makes progress; never blocks.
    bool ready() {
        if (!task_) return true;
        worker_->progress();
        return task_->is_done();
    }

    /// Waits for the end and throws what went wrong, if anything. Any number of times.
    void wait() {
        if (!task_) return;
        worker_->wait_until([&] { return task_->is_done() || (worker_->progress(), task_->is_done()); },
                            [&] { return task_->what(); });
        task_->rethrow();
    }

    /// The same as wait().
    void get() { wait(); }

private:
    void finish() noexcept {
        if (!task_ || task_->is_done()) return;
        if (std::uncaught_exceptions() > exceptions_) {
            task_->abandon();
            return;
        }
        try {
            wait();
        } catch (...) {  // nobody is left to hear it
            task_->abandon();
        }
    }

    std::shared_ptr<detail::Worker> worker_;
    std::shared_ptr<detail::Task> task_;
    int exceptions_ = 0;
};

}  // namespace hvd
