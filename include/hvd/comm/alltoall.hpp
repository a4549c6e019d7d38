// alltoall: every rank sends some of its rows to every rank.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/device_path.hpp>
#include <hvd/comm/direct_path.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement, the counts, agreement on the outputs, and the rows, each pair of ranks on its own.
template <Transport T>
class AlltoallTask final : public StagedOperation {
public:
    AlltoallTask(std::shared_ptr<Context<T>> context, Input in, std::span<const std::size_t> send_counts, Output out,
                 std::vector<std::size_t>& receive_counts)
        : StagedOperation{4},
          context_{std::move(context)},
          channel_{context_->next_channel()},
          direct_{context_},
          device_{context_},
          in_{std::move(in)},
          send_counts_(send_counts.begin(), send_counts.end()),
          out_{out},
          receive_counts_{receive_counts} {}

private:
    /// Rows of one rank that go to another.
    struct RowRange {
        std::size_t first = 0, count = 0;
    };

    std::string counts_error() const {
        const std::size_t sum = sum_of(send_counts_);
        std::string cause;
        if (send_counts_.size() != static_cast<std::size_t>(context_->size()))
            cause = "there are " + std::to_string(send_counts_.size()) + " send counts; give one per rank";
        else if (sum != in_.rows.count)
            cause = "the send counts add up to " + std::to_string(sum) + " and the tensor has " +
                    std::to_string(in_.rows.count) + " rows; make them equal";
        return cause.empty() ? cause : located("alltoall", context_->rank(), context_->size(), cause);
    }

    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0: {
                Call call = Call::of("alltoall");
                call.elements(in_.scalar).trailing(in_.rows.trailing).wrong(counts_error());
                return agree(*context_, channel_,
                             std::move(call.wrong(in_.error("alltoall", context_->rank(), context_->size()))));
            }
            case 1:
                return exchange_counts();
            case 2:
                return agree_on_output();
            default:
                return exchange_rows();
        }
    }

    std::unique_ptr<Operation> exchange_counts() {
        const std::size_t p = send_counts_.size();
        sent_.assign(p, {});
        for (std::size_t r = 0, first = 0; r < p; first += send_counts_[r++]) sent_[r] = {first, send_counts_[r]};
        received_ = sent_;  // right for the own rank
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        for_each_peer(context_->rank(), context_->size(), [&](int peer) {
            const auto i = static_cast<std::size_t>(peer);
            transfers->receive(peer, &received_[i], sizeof(RowRange));
            transfers->send(peer, &sent_[i], sizeof(RowRange));
        });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_output() {
        std::size_t total = 0;
        receive_counts_.clear();
        for (const RowRange& rows : received_) {
            receive_counts_.push_back(rows.count);
            total += rows.count;
        }
        Call call = Call::of("alltoall output");
        call.wrong(out_.make_room(in_.rows.shape_with(total), in_, {}, "alltoall", context_->rank(), context_->size()));
        return agree_later(*context_, channel_, std::move(call));
    }

    std::unique_ptr<Operation> exchange_rows() {
        const std::size_t p = send_counts_.size(), rank = static_cast<std::size_t>(context_->rank());
        std::vector<std::size_t> to(p);  // first rows
        for (std::size_t r = 1; r < p; ++r) to[r] = to[r - 1] + received_[r - 1].count;
        auto* out = static_cast<std::byte*>(out_.data());
        if constexpr (DeviceTransport<T>) {
            std::vector<DeviceParcel> sends, receives;
            for (std::size_t r = 0; r < p; ++r) {
                auto* row = const_cast<std::byte*>(in_.row(sent_[r].first));  // not written to
                sends.push_back({static_cast<int>(r), row, in_.bytes_of(send_counts_[r])});
                receives.push_back({static_cast<int>(r), out + in_.bytes_of(to[r]), in_.bytes_of(received_[r].count)});
            }
            return device_.exchange(channel_, "alltoall", std::move(sends), std::move(receives));
        } else {
            return move_on_host(out, rank, to);
        }
    }

    std::unique_ptr<Operation> move_on_host(std::byte* out, std::size_t rank, const std::vector<std::size_t>& to) {
        const std::size_t p = send_counts_.size();
        if (const std::size_t own = in_.bytes_of(send_counts_[rank]); own > 0)
            std::memcpy(out + in_.bytes_of(to[rank]), in_.row(sent_[rank].first), own);
        if (direct_) {
            DirectExchange exchange{static_cast<const std::byte*>(in_.data), std::vector<DirectPiece>(p),
                                    std::vector<DirectPiece>(p)};
            for (std::size_t r = 0; r < p; ++r) {
                if (r == rank) continue;
                exchange.given[r] = {in_.bytes_of(sent_[r].first), in_.bytes_of(sent_[r].count)};
                exchange.taken[r] = {in_.bytes_of(received_[r].first), in_.bytes_of(received_[r].count),
                                     out + in_.bytes_of(to[r])};
            }
            return direct_.copy(std::move(exchange));
        }
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        for_each_peer(context_->rank(), context_->size(), [&](int peer) {
            const auto i = static_cast<std::size_t>(peer);
            transfers->receive(peer, out + in_.bytes_of(to[i]), in_.bytes_of(received_[i].count));
            transfers->send(peer, in_.row(sent_[i].first), in_.bytes_of(send_counts_[i]));
        });
        return transfers;
    }

    std::shared_ptr<Context<T>> context_;
    Channel<T> channel_;
    DirectPath<T> direct_;
    DevicePath<T> device_;
    Input in_;
    std::vector<std::size_t> send_counts_;
    Output out_;
    std::vector<std::size_t>& receive_counts_;
    std::vector<RowRange> sent_, received_;
};

}  // namespace detail

/// Sends the first `send_counts[0]` rows of `in` to rank 0, the next `send_counts[1]` to rank 1, and so on; counts may be 0
/// and must add up to the rows. `out` gets the rows from all ranks in rank order and is resized, or long enough. Returns how
/// many rows came from each rank. Collective.
template <class T, class A, class In, class Out>
std::vector<std::size_t> alltoall(const Communicator<T, A>& comm, const In& in,
                                  std::span<const std::size_t> send_counts, Out&& out) {
    std::vector<std::size_t> receive_counts;
    if constexpr (detail::explain_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        detail::AlltoallTask<T> task{comm.shared_context(), detail::Input::of(in), send_counts, detail::Output::of(out),
                                     receive_counts};
        detail::complete(comm, task, "alltoall");
    }
    return receive_counts;
}

/// Begins an alltoall; the tensors and `receive_counts` must outlive it.
template <class T, class A, class In, class Out>
Request alltoall_async(const Communicator<T, A>& comm, In&& in, std::span<const std::size_t> send_counts, Out&& out,
                       std::vector<std::size_t>& receive_counts) {
    if constexpr (detail::explain_lasting_in_and_out<In, Out>()) {
        detail::require_place<T, In, Out>();
        return detail::begin_async(
            comm,
            std::make_unique<detail::AlltoallTask<T>>(comm.shared_context(), detail::Input::of(in), send_counts,
                                                      detail::Output::of(out), receive_counts),
            "alltoall");
    } else {
        return {};
    }
}

}  // namespace hvd
