// Scratch: memory that operations borrow and give back, so that a steady step allocates nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace hvd::detail {

/// Uninitialised bytes, aligned for any vector load.
class Block {
public:
    Block() = default;
    explicit Block(std::size_t bytes)
        : data_{static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}))}, size_{bytes} {}
    Block(Block&& other) noexcept : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
    Block& operator=(Block&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Block() {
        if (data_ != nullptr) ::operator delete (data_, std::align_val_t{64});
    }
    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Blocks that are free at the moment. May be used by several threads.
class BlockPool {
public:
    Block borrow(std::size_t bytes) {
        {
            const std::scoped_lock lock{mutex_};
            for (std::size_t i = free_.size(); i-- > 0;) {
                if (free_[i].size() < bytes) continue;
                Block block = std::move(free_[i]);
                free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
                return block;
            }
            if (free_.size() >= most_kept) free_.erase(free_.begin());
        }
        return Block{bytes};
    }
    void give_back(Block block) {
        if (block.data() == nullptr) return;
        const std::scoped_lock lock{mutex_};
        if (free_.size() < most_kept) free_.push_back(std::move(block));
    }

private:
    static constexpr std::size_t most_kept = 8;
    std::mutex mutex_;
    std::vector<Block> free_;
};

/// A borrowed block, given back at the end.
class Loan {
public:
    Loan() = default;
    Loan(std::shared_ptr<BlockPool> pool, std::size_t bytes) : pool_{std::move(pool)} {
        if (bytes > 0) block_ = pool_->borrow(bytes);
    }
    Loan(Loan&&) noexcept = default;
    Loan& operator=(Loan&& other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(block_, other.block_);
        return *this;
    }
    ~Loan() {
        if (pool_) pool_->give_back(std::move(block_));
    }
    std::byte* data() const { return block_.data(); }

private:
    std::shared_ptr<BlockPool> pool_;
    Block block_;
};

}  // namespace hvd::detail
