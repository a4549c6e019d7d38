// gather: the rows of all ranks, in rank order, on one of them.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/direct_path.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement, the counts to the root, agreement on its output, and the rows.
template <Transport T>
class GatherTask final : public StagedOperation {
public:
    GatherTask(std::shared_ptr<Context<T>> context, Input in, Output out, int root)
        : StagedOperation{4},
          context_{std::move(context)},
          channel_{context_->next_channel()},
          direct_{context_},
          device_{context_},
          in_{std::move(in)},
          out_{out},
          root_{root},
          counts_(static_cast<std::size_t>(context_->size())) {}

private:
    bool is_root() const { return context_->rank() == root_; }

    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0: {
                Call call = Call::of("gather");
                call.elements(in_.scalar).trailing(in_.rows.trailing).root(root_);
                call.wrong(root_error("gather", root_, context_->rank(), context_->size()));
                return agree(*context_, channel_,
                             std::move(call.wrong(in_.error("gather", context_->rank(), context_->size()))));
            }
            case 1:
                return collect_counts();
            case 2:
                return agree_on_output();
            default:
                return collect_rows();
        }
    }

    std::unique_ptr<Operation> collect_counts() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        if (!is_root()) {
            transfers->send(root_, &in_.rows.count, sizeof(std::size_t));
            return transfers;
        }
        for_each_peer(context_->rank(), context_->size(), [&](int peer) {
            transfers->receive(peer, &counts_[static_cast<std::size_t>(peer)], sizeof(std::size_t));
        });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_output() {
        Call call = Call::of("gather output");
        if (is_root()) {
            counts_[static_cast<std::size_t>(root_)] = in_.rows.count;
            std::size_t total = 0, own = 0;
            for (std::size_t r = 0; r < counts_.size(); total += counts_[r++])
                if (static_cast<int>(r) == root_) own = total;
            const auto place = static_cast<std::ptrdiff_t>(own * in_.rows.width);
            call.wrong(
                out_.make_room(in_.rows.shape_with(total), in_, place, "gather", context_->rank(), context_->size()));
        }
        return agree_later(*context_, channel_, std::move(call));
    }

    std::unique_ptr<Operation> collect_rows() {
        if constexpr (DeviceTransport<T>) return collect_on_device();
        else return collect_on_host();
    }

    std::unique_ptr<Operation> collect_on_device() {
        auto* in = const_cast<void*>(in_.data);  // not written to
        auto* place = static_cast<std::byte*>(out_.data());
        std::vector<DeviceParcel> sends, receives;
        for (int r = 0; is_root() && r < context_->size(); ++r) {
            const std::size_t bytes = in_.bytes_of(counts_[static_cast<std::size_t>(r)]);
            if (r != root_ || place != in) receives.push_back({r, place, bytes});
            place += bytes;
        }
        if (!is_root() || receives.size() == counts_.size()) sends.push_back({root_, in, in_.bytes_of(in_.rows.count)});
        return device_.exchange(channel_, "gather", std::move(sends), std::move(receives));
    }

    std::unique_ptr<Operation> collect_on_host() {
        const auto* in = static_cast<const std::byte*>(in_.data);
        DirectExchange exchange{in, {{}}, std::vector<DirectPiece>(counts_.size())};
        if (direct_ && !is_root()) {
            exchange.given[0] = {0, in_.bytes_of(in_.rows.count)};
            return direct_.copy(std::move(exchange));
        }
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        if (!is_root()) {
            transfers->send(root_, in_.data, in_.bytes_of(in_.rows.count));
            return transfers;
        }
        auto* place = static_cast<std::byte*>(out_.data());
        for (int r = 0; r < context_->size(); ++r) {
            const std::size_t bytes = in_.bytes_of(counts_[static_cast<std::size_t>(r)]);
            if (r != root_ && direct_) exchange.taken[static_cast<std::size_t>(r)] = {0, bytes, place};
            else if (r != root_) transfers->receive(r, place, bytes);
            else if (bytes > 0 && place != in_.data) std::memmove(place, in_.data, bytes);
            place += bytes;
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
    std::vector<std::size_t> counts_;
};

}  // namespace detail

/// Concatenates the rows (dimension 0) of `in` of all ranks in `out` on rank `root`, in rank order; numbers of rows may
/// differ. `out` is resized, or long enough, on the root, and not used elsewhere. Collective.
template <class T, class A, class In, class Out>
void gather(const Communicator<T, A>& comm, const In& in, Out&& out, int root) {
    if constexpr (detail::explain_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        detail::GatherTask<T> task{comm.shared_context(), detail::Input::of(in), detail::Output::of(out), root};
        detail::complete(comm, task, "gather");
    }
}

/// Begins a gather; both tensors must outlive it.
template <class T, class A, class In, class Out>
Request gather_async(const Communicator<T, A>& comm, In&& in, Out&& out, int root) {
    if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        return detail::begin_async(comm,
                                   std::make_unique<detail::GatherTask<T>>(comm.shared_context(), detail::Input::of(in),
                                                                           detail::Output::of(out), root),
                                   "gather");
    } else {
        return {};
    }
}

}  // namespace hvd
