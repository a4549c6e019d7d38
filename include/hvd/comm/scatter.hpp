// scatter: one rank's rows are dealt out to all.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/direct_path.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement; the outputs' rows go to the root; the root, which knows the counts, tells each rank its own; rows follow.
template <Transport T>
class ScatterTask final : public StagedOperation {
public:
    /// Without `counts` the lengths of the outputs decide, or, when all are empty and can grow, shares are even.
    ScatterTask(std::shared_ptr<Context<T>> context, Input in, std::optional<std::span<const std::size_t>> counts,
                Output out, int root)
        : StagedOperation{6},
          context_{std::move(context)},
          channel_{context_->next_channel()},
          direct_{context_},
          device_{context_},
          in_{std::move(in)},
          out_{out},
          root_{root},
          asked_(static_cast<std::size_t>(context_->size())),
          has_counts_{counts.has_value()} {
        if (has_counts_ && is_root()) given_.assign(counts->begin(), counts->end());
    }

private:
    struct Asked {
        std::size_t rows = 0;
        std::uint64_t can_grow = 0;
    };
    struct Told {
        std::size_t rows = 0, width = 0, first = 0;  // first: place in the root's rows
    };

    bool is_root() const { return context_->rank() == root_; }
    std::string located(const std::string& cause) const {
        return detail::located("scatter", context_->rank(), context_->size(), cause);
    }

    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0:
                return agree_on_call();
            case 1:
                return ask();
            case 2:
                return agree_on_counts();
            case 3:
                return tell();
            case 4:
                return agree_on_output();
            default:
                return deal();
        }
    }

    std::unique_ptr<Operation> agree_on_call() {
        Call call = Call::of(has_counts_ ? "scatter by counts" : "scatter");
        call.elements(in_.scalar).root(root_).wrong(root_error("scatter", root_, context_->rank(), context_->size()));
        if (is_root()) call.wrong(in_.error("scatter", context_->rank(), context_->size()));
        if (is_root() && has_counts_ && given_.size() != asked_.size())
            call.wrong(located("there are " + std::to_string(given_.size()) + " counts; give one per rank"));
        return agree(*context_, channel_, std::move(call));
    }

    std::unique_ptr<Operation> ask() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        own_ = {out_.rows().count, out_.can_grow() ? 1u : 0u};
        if (!is_root()) transfers->send(root_, &own_, sizeof own_);
        else
            for_each_peer(context_->rank(), context_->size(), [&](int peer) {
                transfers->receive(peer, &asked_[static_cast<std::size_t>(peer)], sizeof(Asked));
            });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_counts() {
        Call call = Call::of("scatter counts");
        if (is_root()) {
            asked_[static_cast<std::size_t>(root_)] = own_;
            if (!has_counts_) decide();
            const std::size_t sum = sum_of(given_);
            if (sum != in_.rows.count)
                call.wrong(located((has_counts_ ? "the counts add up to " : "the outputs of all ranks add up to ") +
                                   std::to_string(sum) + " rows and the root's tensor has " +
                                   std::to_string(in_.rows.count) + "; make them equal"));
        }
        return agree_later(*context_, channel_, std::move(call));
    }

    void decide() {
        const std::size_t p = asked_.size();
        bool even = true;
        for (const Asked& a : asked_) even = even && a.rows == 0 && a.can_grow != 0;
        for (std::size_t r = 0; r < p; ++r)
            given_.push_back(even ? split_begin(in_.rows.count, p, r + 1) - split_begin(in_.rows.count, p, r)
                                  : asked_[r].rows);
    }

    std::unique_ptr<Operation> tell() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        if (!is_root()) {
            transfers->receive(root_, &told_, sizeof told_);
            return transfers;
        }
        std::size_t first = 0;
        for (std::size_t count : given_) {
            tellings_.push_back({count, in_.rows.width, first});
            first += count;
        }
        told_ = tellings_[static_cast<std::size_t>(root_)];
        for_each_peer(context_->rank(), context_->size(), [&](int peer) {
            transfers->send(peer, &tellings_[static_cast<std::size_t>(peer)], sizeof(Told));
        });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_output() {
        Call call = Call::of("scatter output");
        Rows rows = out_.rows();
        if (!rows.trailing.empty() && rows.width != told_.width) {
            call.wrong(located("a row of the output has " + std::to_string(rows.width) +
                               " elements and one of the root's has " + std::to_string(told_.width) +
                               "; make them equal"));
        } else {
            if (rows.trailing.empty() && told_.width != 1) rows.trailing = {told_.width};
            Input read = in_;
            if (!is_root()) read.size = 0;
            const auto place = -static_cast<std::ptrdiff_t>(told_.first * told_.width);
            call.wrong(out_.make_room(rows.shape_with(told_.rows), read, place, "scatter", context_->rank(),
                                      context_->size()));
        }
        return agree_later(*context_, channel_, std::move(call));
    }

    std::size_t bytes(std::size_t rows) const { return rows * told_.width * in_.scalar.size; }

    std::unique_ptr<Operation> deal() {
        if constexpr (DeviceTransport<T>) return deal_on_device();
        else return deal_on_host();
    }

    std::unique_ptr<Operation> deal_on_device() {
        auto* place = static_cast<std::byte*>(const_cast<void*>(in_.data));  // not written to
        std::vector<DeviceParcel> sends, receives;
        bool is_in_place = false;
        for (int r = 0; is_root() && r < context_->size(); ++r) {
            const std::size_t size = bytes(given_[static_cast<std::size_t>(r)]);
            if (r == root_ && place == out_.data()) is_in_place = true;
            else sends.push_back({r, place, size});
            place += size;
        }
        if (!is_in_place) receives.push_back({root_, out_.data(), bytes(told_.rows)});
        return device_.exchange(channel_, "scatter", std::move(sends), std::move(receives));
    }

    std::unique_ptr<Operation> deal_on_host() {
        const std::size_t p = asked_.size();
        DirectExchange exchange{static_cast<const std::byte*>(in_.data), std::vector<DirectPiece>(p),
                                std::vector<DirectPiece>(p)};
        if (direct_ && !is_root()) {
            exchange.taken[static_cast<std::size_t>(root_)] = {bytes(told_.first), bytes(told_.rows),
                                                               static_cast<std::byte*>(out_.data())};
            return direct_.copy(std::move(exchange));
        }
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        if (!is_root()) {
            transfers->receive(root_, out_.data(), bytes(told_.rows));
            return transfers;
        }
        const auto* place = static_cast<const std::byte*>(in_.data);
        for (int r = 0; r < context_->size(); ++r) {
            const std::size_t size = bytes(given_[static_cast<std::size_t>(r)]);
            const auto at = static_cast<std::size_t>(place - exchange.data);
            if (r != root_ && direct_) exchange.given[static_cast<std::size_t>(r)] = {at, size};
            else if (r != root_) transfers->send(r, place, size);
            else if (size > 0) std::memmove(out_.data(), place, size);
            place += size;
        }
        if (direct_) return direct_.copy(std::move(exchange));
        return transfers;
    }

    std::shared_ptr<Context<T>> context_;
    Channel<T> channel_;
    DirectPath<T> direct_;
    DevicePath<T> device_;
    Input in_;
    Output out_;
    int root_;
    Asked own_;
    Told told_;
    std::vector<Asked> asked_;
    std::vector<std::size_t> given_;
    std::vector<Told> tellings_;
    bool has_counts_;
};

template <class T, class A, class In, class Out>
void scatter_rows(const Communicator<T, A>& comm, const In& in, std::optional<std::span<const std::size_t>> counts,
                  Out& out, int root) {
    ScatterTask<T> task{comm.shared_context(), Input::of(in), counts, Output::of(out), root};
    complete(comm, task, "scatter");
}

}  // namespace detail

/// Deals the rows (dimension 0) of rank `root`'s `in` out in rank order: each rank gets as many as its `out` has, together
/// all of them; when all outputs are empty and can be resized, shares are even (the first ranks take one more). `in` is not
/// used on the other ranks. Collective.
template <class T, class A, class In, class Out>
void scatter(const Communicator<T, A>& comm, const In& in, Out&& out, int root) {
    if constexpr (detail::explain_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        detail::scatter_rows(comm, in, std::nullopt, out, root);
    }
}

/// The same with the number of rows for each rank, which counts on the root; `out` is resized, or long enough.
template <class T, class A, class In, class Out>
void scatter(const Communicator<T, A>& comm, const In& in, std::span<const std::size_t> counts, Out&& out, int root) {
    if constexpr (detail::explain_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        detail::scatter_rows(comm, in, counts, out, root);
    }
}

namespace detail {

template <class T, class A, class In, class Out>
Request begin_scatter(const Communicator<T, A>& comm, const In& in, std::optional<std::span<const std::size_t>> counts,
                      Out& out, int root) {
    return begin_async(
        comm, std::make_unique<ScatterTask<T>>(comm.shared_context(), Input::of(in), counts, Output::of(out), root),
        "scatter");
}

}  // namespace detail

/// Begins a scatter by the lengths of the outputs; both tensors must outlive it.
template <class T, class A, class In, class Out>
Request scatter_async(const Communicator<T, A>& comm, In&& in, Out&& out, int root) {
    if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        return detail::begin_scatter(comm, in, std::nullopt, out, root);
    } else {
        return {};
    }
}

/// Begins a scatter by `counts`, which need not last.
template <class T, class A, class In, class Out>
Request scatter_async(const Communicator<T, A>& comm, In&& in, std::span<const std::size_t> counts, Out&& out,
                      int root) {
    if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        return detail::begin_scatter(comm, in, counts, out, root);
    } else {
        return {};
    }
}

}  // namespace hvd
