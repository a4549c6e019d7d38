// How a bucket is carried out: alone, in place, packed piece by piece, or around ranks that have joined.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hvd/comm/shared_array.hpp>
#include <hvd/engine/entry.hpp>
#include <hvd/engine/plan.hpp>

namespace hvd::detail {

template <class Comm>
using Entries = std::vector<std::shared_ptr<Entry<Comm>>>;

/// Operations one after another.
class SequenceRun final : public Operation {
public:
    std::vector<std::unique_ptr<Operation>> parts;

    bool advance() override {
        for (; next_ < parts.size(); ++next_)
            if (!parts[next_]->advance()) return false;
        return true;
    }
    int waiting_for() const override { return next_ < parts.size() ? parts[next_]->waiting_for() : -1; }

private:
    std::size_t next_ = 0;
};

/// Tensors that travel together. What lies side by side in a bound buffer is reduced where it is, in one go; a long tensor
/// is, too; the others go through shared scratch in pieces that stay in the cache.
template <class Comm>
class FusedRun final : public Operation {
public:
    using T = typename Comm::transport_type;

    /// `scratch` is shared between the ranks of a node. The entries stay with the caller.
    FusedRun(const Comm& comm, Channel<T> channel, const Entries<Comm>& entries, std::span<std::byte> scratch)
        : comm_{comm},
          channel_{channel},
          entries_{entries},
          scratch_{scratch},
          element_{entries_[0]->metadata().scalar_size} {
        for (const auto& entry : entries_) add(*entry);
    }

    bool advance() override {
        for (; run_ < runs_.size(); ++run_) {
            Run& run = runs_[run_];
            if (!run.packed) {
                if (!step(run.parts[0].data, run.bytes)) return false;
                continue;
            }
            if (!reduction_) copy(run, true);
            if (!step(scratch_.data(), run.bytes)) return false;
            copy(run, false);
        }
        return true;
    }
    int waiting_for() const override { return reduction_ ? reduction_->waiting_for() : -1; }

private:
    struct Part {
        std::byte* data;
        std::size_t bytes;
    };
    struct Run {
        std::vector<Part> parts;
        std::size_t bytes = 0;
        bool packed = false;
        std::uint64_t place_end = 0;
    };
    static constexpr std::size_t alone_bytes = std::size_t{512} * 1024;

    /// All ranks cut alike: by lengths and places only, never by addresses.
    void add(Entry<Comm>& entry) {
        const Metadata& m = entry.metadata();
        if (m.bytes == 0) return;
        if (m.place != 0) {
            if (!runs_.empty() && runs_.back().place_end == m.place) {
                runs_.back().bytes += m.bytes;
            } else {
                runs_.push_back({{{entry.data(), m.bytes}}, m.bytes, false, 0});
            }
            runs_.back().place_end = m.place + m.bytes;
            return;
        }
        if (m.bytes >= alone_bytes || m.bytes > scratch_.size()) {
            runs_.push_back({{{entry.data(), m.bytes}}, m.bytes, false, 0});
            return;
        }
        if (runs_.empty() || !runs_.back().packed || runs_.back().bytes + m.bytes > scratch_.size())
            runs_.push_back({{}, 0, true, 0});
        runs_.back().parts.push_back({entry.data(), m.bytes});
        runs_.back().bytes += m.bytes;
    }

    bool step(std::byte* data, std::size_t bytes) {
        if (!reduction_) reduction_ = entries_[0]->reduce(comm_, channel_, data, bytes / element_);
        if (!reduction_->advance()) return false;
        reduction_.reset();
        return true;
    }

    void copy(const Run& run, bool in) {
        std::byte* packed = scratch_.data();
        for (const Part& part : run.parts) {
            std::memcpy(in ? packed : part.data, in ? part.data : packed, part.bytes);
            packed += part.bytes;
        }
    }

    const Comm& comm_;
    Channel<T> channel_;
    const Entries<Comm>& entries_;
    std::span<std::byte> scratch_;
    std::size_t element_;
    std::vector<Run> runs_;
    std::size_t run_ = 0;
    std::unique_ptr<Operation> reduction_;
};

/// On devices, whose library takes tensors where they lie.
template <class Comm>
std::unique_ptr<Operation> start_on_device(const Comm& comm, Channel<typename Comm::transport_type> channel,
                                           const Entries<Comm>& entries) {
    if (entries.size() == 1) return entries[0]->start(comm, channel);
    std::vector<std::span<std::byte>> pieces;
    std::vector<FenceOf<typename Comm::transport_type>> after;
    for (const auto& entry : entries) {
        pieces.emplace_back(entry->data(), static_cast<std::size_t>(entry->metadata().bytes));
        after.push_back(entry->fence);
    }
    return entries[0]->reduce_pieces(comm, channel, pieces, std::move(after));
}

/// An allreduce while some ranks have joined: those that take part bring their elements to all, piece by piece, and each
/// folds them itself, so that no neutral element is needed. A joined rank has no entry and only passes bytes on.
template <class Comm>
class JoinedRun final : public Operation {
public:
    using T = typename Comm::transport_type;

    JoinedRun(const Comm& comm, Channel<T> channel, std::shared_ptr<Entry<Comm>> entry, const Metadata& metadata,
              const std::vector<char>& joined)
        : comm_{comm},
          channel_{channel},
          entry_{std::move(entry)},
          element_{metadata.scalar_size},
          count_{metadata.bytes / metadata.scalar_size},
          joined_{joined} {}

    bool advance() override {
        while (first_ < count_) {
            const std::size_t n =
                std::min(count_ - first_, is_whole_ ? count_ : std::max<std::size_t>(piece_bytes / element_, 1));
            if (!run_) begin(n);
            if (!run_->advance()) return false;
            run_.reset();
            if (entry_) {
                std::vector<const void*> inputs;
                std::size_t place = 0;
                for (char joined : joined_)
                    if (!joined) inputs.push_back(all_.data() + n * element_ * place++);
                entry_->fold(entry_->data() + first_ * element_, inputs, n);
            }
            first_ += n;
        }
        return true;
    }
    int waiting_for() const override { return run_ ? run_->waiting_for() : -1; }

    /// For operations that look at whole tensors.
    void set_whole() { is_whole_ = true; }

private:
    static constexpr std::size_t piece_bytes = std::size_t{1} << 20;

    void begin(std::size_t n) {
        std::vector<std::size_t> offsets{0};
        for (char joined : joined_) offsets.push_back(offsets.back() + (joined ? 0 : n));
        all_.resize(offsets.back() * element_);
        if (entry_)
            std::memcpy(all_.data() + offsets[static_cast<std::size_t>(comm_.rank())] * element_,
                        entry_->data() + first_ * element_, n * element_);
        const RingSchedule schedule{comm_.rank(), comm_.size(), 1, RingSchedule::Part::Allgather};
        run_ = std::make_unique<ScheduleRun<T, RingSchedule>>(channel_, schedule, Layout{std::move(offsets)},
                                                              all_.data(), Fold::none(element_), comm_.context().pool);
    }

    const Comm& comm_;
    Channel<T> channel_;
    std::shared_ptr<Entry<Comm>> entry_;
    std::size_t element_, count_;
    std::vector<char> joined_;
    std::size_t first_ = 0;
    bool is_whole_ = false;
    std::vector<std::byte> all_;
    std::unique_ptr<Operation> run_;
};

/// What a joined rank does for an operation that is no reduction: it takes part with nothing.
template <class Comm>
class BystanderRun final : public Operation {
public:
    using T = typename Comm::transport_type;

    BystanderRun(const Comm& comm, const Metadata& m) : counts_(static_cast<std::size_t>(comm.size()), 0) {
        const ScalarInfo scalar{m.scalar_size, m.scalar_id, {}};
        Rows rows{0, m.width, {m.trailing.begin(), m.trailing.end()}};
        const auto context = comm.shared_context();
        switch (static_cast<Kind>(m.kind)) {
            case Kind::Allgather:
                run_ = std::make_unique<AllgatherTask<T>>(context, Input{nullptr, 0, scalar, rows}, output(m));
                break;
            case Kind::Alltoall:
                run_ = std::make_unique<AlltoallTask<T>>(context, Input{nullptr, 0, scalar, rows}, counts_, output(m),
                                                         received_);
                break;
            default:
                bytes_.resize(m.bytes);
                run_ = std::make_unique<BroadcastTask<T>>(context, bytes_.data(), m.bytes / m.scalar_size, scalar,
                                                          static_cast<int>(m.root));
        }
    }
    bool advance() override { return run_->advance(); }
    int waiting_for() const override { return run_->waiting_for(); }

private:
    /// Room for the rows of the others, which nobody looks at.
    Output output(const Metadata& m) { return Output::of_bytes(bytes_, m.scalar_size); }

    std::vector<std::size_t> counts_, received_;
    std::vector<std::byte> bytes_;
    std::unique_ptr<Operation> run_;
};

/// The operations of a bucket while some ranks have joined, one after another; `entries`: none on a rank that has.
template <class Comm>
std::unique_ptr<Operation> start_around_joined(const Comm& comm, Channel<typename Comm::transport_type> channel,
                                               const Bucket& bucket,
                                               const std::unordered_map<std::string, Metadata>& metadata,
                                               const std::vector<char>& joined, const Entries<Comm>* entries) {
    auto sequence = std::make_unique<SequenceRun>();
    for (std::size_t i = 0; i < bucket.members.size(); ++i) {
        const Metadata& m = metadata.at(bucket.members[i].name);
        const auto entry = entries == nullptr ? nullptr : (*entries)[i];
        if (static_cast<Kind>(m.kind) == Kind::Allreduce) {
            auto run = std::make_unique<JoinedRun<Comm>>(comm, channel, entry, m, joined);
            if (m.fuse_key == 0) run->set_whole();
            sequence->parts.push_back(std::move(run));
        } else if (entry) {
            sequence->parts.push_back(entry->start(comm, channel));
        } else {
            sequence->parts.push_back(std::make_unique<BystanderRun<Comm>>(comm, m));
        }
    }
    return sequence;
}

}  // namespace hvd::detail
