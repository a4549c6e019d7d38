// Entry: one submitted operation, with what is needed to carry it out on whichever thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/comm/allgather.hpp>
#include <hvd/comm/alltoall.hpp>
#include <hvd/comm/broadcast.hpp>
#include <hvd/comm/reduce_scatter.hpp>
#include <hvd/comm/reduction.hpp>
#include <hvd/comm/request.hpp>
#include <hvd/engine/report.hpp>

namespace hvd::detail {

/// A completion that counts who waits for it; guarded by Pending.
class EngineCompletionBase : public Completion {
public:
    using Completion::Completion;
    int waiters = 0;
};

template <class Comm>
class Entry {
public:
    using Transport = typename Comm::transport_type;

    Entry(Metadata metadata, std::shared_ptr<Completion> completion)
        : metadata_{std::move(metadata)}, completion_{std::move(completion)} {}
    virtual ~Entry() = default;

    const Metadata& metadata() const { return metadata_; }
    const std::string& name() const { return metadata_.name; }
    Completion& completion() { return *completion_; }
    const std::shared_ptr<Completion>& shared_completion() const { return completion_; }
    void set_completion(std::shared_ptr<Completion> completion) { completion_ = std::move(completion); }
    std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
    void* slot = nullptr;  // of Pending, while the entry is there

    /// Equal for entries of one type that can be used again in the next step; null: cannot.
    virtual const void* kind() const { return nullptr; }

    /// The whole operation, when it travels alone.
    virtual std::unique_ptr<Operation> start(const Comm& comm, Channel<Transport> channel) = 0;

    /// On devices: what the rank's stream had when the operation was submitted.
    [[no_unique_address]] FenceOf<Transport> fence{};

    // Only for reductions of elements, which may be fused.
    /// The elements, and an operation that reduces n of the same kind elsewhere.
    virtual std::byte* data() { return nullptr; }
    virtual std::unique_ptr<Operation> reduce(const Comm&, Channel<Transport>, std::byte*, std::size_t) {
        return nullptr;
    }
    /// On devices, where nothing need be packed: those at `pieces`, behind `after`.
    virtual std::unique_ptr<Operation> reduce_pieces(const Comm&, Channel<Transport>,
                                                     const std::vector<std::span<std::byte>>&,
                                                     std::vector<FenceOf<Transport>>) {
        return nullptr;
    }
    /// Without some ranks: the result of `inputs`, each n elements, from rank 0 up, into `out`.
    virtual void fold(std::byte*, const std::vector<const void*>&, std::size_t) {}

private:
    Metadata metadata_;
    std::shared_ptr<Completion> completion_;
};

/// An allreduce in place.
template <class Comm, Scalar E, class Op>
class ReduceEntry final : public Entry<Comm> {
    using Base = Entry<Comm>;
    using typename Base::Transport;

public:
    ReduceEntry(const Comm& comm, Metadata metadata, std::shared_ptr<Completion> completion, std::span<E> data, Op op,
                ReduceOptions options)
        : Base{std::move(metadata), std::move(completion)}, data_{data}, op_{std::move(op)}, options_{options} {
        this->fence = fence_of(comm.transport());
    }

    static constexpr bool can_be_renewed = std::is_nothrow_copy_constructible_v<Op>;
    static inline const char own_kind = 0;
    const void* kind() const override { return can_be_renewed ? &own_kind : nullptr; }

    /// The same operation on the elements of this step, if it is the same.
    bool renew(const Comm& comm, std::uint64_t signature, std::uint64_t place,
               const std::shared_ptr<Completion>& completion, std::span<E> data, const Op& op) {
        const Metadata& m = this->metadata();
        if (m.signature != signature || m.place != place || m.bytes != data.size_bytes()) return false;
        if constexpr (!std::is_empty_v<Op>) {
            std::destroy_at(std::addressof(op_));
            std::construct_at(std::addressof(op_), op);
        }
        data_ = data;
        this->set_completion(completion);
        this->fence = fence_of(comm.transport());
        this->submitted = std::chrono::steady_clock::now();
        return true;
    }

    std::byte* data() override { return reinterpret_cast<std::byte*>(data_.data()); }

    std::unique_ptr<Operation> start(const Comm& comm, Channel<Transport> channel) override {
        if constexpr (DeviceTransport<Transport>)
            return reduce_pieces(comm, channel, {{data(), data_.size_bytes()}}, {this->fence});
        else return reduce(comm, channel, data(), data_.size());
    }

    std::unique_ptr<Operation> reduce_pieces([[maybe_unused]] const Comm& comm,
                                             [[maybe_unused]] Channel<Transport> channel,
                                             [[maybe_unused]] const std::vector<std::span<std::byte>>& pieces,
                                             [[maybe_unused]] std::vector<FenceOf<Transport>> after) override {
        if constexpr (DeviceTransport<Transport>) {
            std::vector<DevicePiece<E>> all;
            for (const auto& piece : pieces) {
                auto* elements = reinterpret_cast<E*>(piece.data());
                all.push_back({elements, elements, piece.size() / sizeof(E)});
            }
            return reduce_on_device(comm, channel, std::move(all), op_, options_, std::move(after));
        } else {
            return nullptr;
        }
    }

    std::unique_ptr<Operation> reduce(const Comm& comm, Channel<Transport> channel, std::byte* data,
                                      std::size_t n) override {
        return std::make_unique<Reducer<Transport, typename Comm::algorithm_type, E, Op>>(
            comm, channel, std::span<E>{reinterpret_cast<E*>(data), n}, op_, options_);
    }

    void fold(std::byte* out, const std::vector<const void*>& inputs, std::size_t n) override {
        const Rescale<E, Op> rescale{options_, static_cast<int>(inputs.size())};
        using Wide = typename Rescale<E, Op>::Wide;
        std::vector<std::vector<Wide>> wide(inputs.size(), std::vector<Wide>(n));
        for (std::size_t i = 0; i < inputs.size(); ++i)
            rescale.before(wide[i].data(), static_cast<const E*>(inputs[i]), n);
        if constexpr (std::same_as<Op, Adasum>) {
            for (std::size_t i = 1; i < wide.size(); ++i)
                adasum_pair(wide[0].data(), wide[0].data(), wide[i].data(), n);
        } else {
            const Carried<Op> op = carried(op_);
            for (std::size_t i = 1; i < wide.size(); ++i)
                reduce_pair(wide[0].data(), wide[0].data(), wide[i].data(), n, op);
        }
        rescale.after(reinterpret_cast<E*>(out), wide[0].data(), n);
    }

private:
    std::span<E> data_;
    Op op_;
    ReduceOptions options_;
};

/// Any other collective, made by a function when its turn has come.
template <class Comm, class Make>
class TaskEntry final : public Entry<Comm> {
    using Base = Entry<Comm>;
    using typename Base::Transport;

public:
    TaskEntry(Metadata metadata, std::shared_ptr<Completion> completion, Make make)
        : Base{std::move(metadata), std::move(completion)}, make_{std::move(make)} {}
    std::unique_ptr<Operation> start(const Comm& comm, Channel<Transport>) override { return make_(comm); }

private:
    Make make_;
};

}  // namespace hvd::detail
