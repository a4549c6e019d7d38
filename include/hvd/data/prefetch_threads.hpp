// The threads of a Prefetcher: which item is read when, without knowing what an item is.
#pragma once

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include <pthread.h>

namespace hvd::detail {

/// Reads items 0 ... count-1 in a few threads, at most `depth` ahead of the consumer. Item k goes through slot k % depth.
/// pthreads, since <thread> would cost every user half a second of compile time.
class PrefetchThreads {
public:
    using Read = void (*)(void* owner, std::size_t item, std::size_t slot);

    PrefetchThreads(std::size_t count, std::size_t depth) : count_{count}, slots_(depth) {}
    PrefetchThreads(const PrefetchThreads&) = delete;
    PrefetchThreads& operator=(const PrefetchThreads&) = delete;
    ~PrefetchThreads() { stop(); }

    /// If the system gives no thread, the consumer reads for itself.
    void start(std::size_t threads, Read read, void* owner) {
        read_ = read;
        owner_ = owner;
        threads_.reserve(threads);
        for (std::size_t t = 0; t < threads; ++t) {
            pthread_t thread{};
            if (::pthread_create(&thread, nullptr, &PrefetchThreads::run, this) != 0) break;
            threads_.push_back(thread);
        }
    }

    /// Waits for the reads under way, begins no other.
    void stop() noexcept {
        {
            const Lock lock{mutex_};
            is_stopping_ = true;
            ::pthread_cond_broadcast(&changed_);
        }
        for (pthread_t thread : threads_) ::pthread_join(thread, nullptr);
        threads_.clear();
    }

    bool is_done() const { return taken_ == count_; }
    std::size_t next_item() const { return taken_; }

    /// Waits for the next item, and gives its slot to `take(slot)`. What its read threw is thrown here.
    template <class Take>
    void take_next(Take&& take) {
        const std::size_t slot = taken_ % slots_.size();
        if (threads_.empty()) {
            read_into(taken_, slot);
        } else {
            const Lock lock{mutex_};
            while (!slots_[slot].is_full) ::pthread_cond_wait(&changed_, &mutex_);
        }
        const std::exception_ptr error = std::exchange(slots_[slot].error, nullptr);
        if (!error) take(slot);
        {
            const Lock lock{mutex_};
            slots_[slot].is_full = false;
            ++taken_;
            ::pthread_cond_broadcast(&changed_);
        }
        if (error) std::rethrow_exception(error);
    }

private:
    struct Slot {
        bool is_full = false;
        std::exception_ptr error{};
    };

    class Lock {
    public:
        explicit Lock(pthread_mutex_t& mutex) : mutex_{mutex} { ::pthread_mutex_lock(&mutex_); }
        ~Lock() { ::pthread_mutex_unlock(&mutex_); }
        Lock(const Lock&) = delete;
        Lock& operator=(const Lock&) = delete;

    private:
        pthread_mutex_t& mutex_;
    };

    static void* run(void* self) {
        static_cast<PrefetchThreads*>(self)->read_all();
        return nullptr;
    }

    void read_all() {
        for (;;) {
            std::size_t item;
            {
                const Lock lock{mutex_};
                while (!is_stopping_ && begun_ < count_ && begun_ >= taken_ + slots_.size())
                    ::pthread_cond_wait(&changed_, &mutex_);
                if (is_stopping_ || begun_ == count_) return;
                item = begun_++;
            }
            const std::size_t slot = item % slots_.size();
            read_into(item, slot);
            const Lock lock{mutex_};
            slots_[slot].is_full = true;
            ::pthread_cond_broadcast(&changed_);
        }
    }

    void read_into(std::size_t item, std::size_t slot) {
        try {
            read_(owner_, item, slot);
        } catch (...) {
            slots_[slot].error = std::current_exception();
        }
    }

    const std::size_t count_;
    std::size_t begun_ = 0, taken_ = 0;  // items; taken_ is written by the consumer alone, with the lock
    bool is_stopping_ = false;
    std::vector<Slot> slots_;
    Read read_ = nullptr;
    void* owner_ = nullptr;
    std::vector<pthread_t> threads_;
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace hvd::detail
