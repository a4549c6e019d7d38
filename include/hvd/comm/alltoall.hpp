// alltoall: every rank sends some of its rows to every rank.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

template <class T, class A, class In, class Out>
class AlltoallTask final : public StagedOperation {
public:
    AlltoallTask(const Communicator<T, A>& comm, const In& in, std::span<const std::size_t> send_counts, Out& out,
                 std::vector<std::size_t>& receive_counts)
        : StagedOperation{4}, comm_{comm}, channel_{comm.context().next_channel()}, in_{const_data_of(in)},
          rows_{rows_of(in)}, send_counts_(send_counts.begin(), send_counts.end()), out_{out}, receive_counts_{receive_counts} {
        call_ = Call::of("alltoall").with(scalar_id<E>);
        add_trailing(call_, rows_);
        call_.error = shape_error(in, rows_, "alltoall", comm.rank(), comm.size());
        if (call_.error.empty()) call_.error = counts_error();
        if (!comm.options().checks && !call_.error.empty()) throw UsageError{call_.error};
    }

private:
    using E = tensor_value_t<In>;

    std::string counts_error() const {
        const auto p = static_cast<std::size_t>(comm_.size());
        std::string cause;
        std::size_t sum = 0;
        for (std::size_t count : send_counts_) sum += count;
        if (send_counts_.size() != p)
            cause = "there are " + std::to_string(send_counts_.size()) + " send counts; give one per rank";
        else if (sum != rows_.count)
            cause = "the send counts add up to " + std::to_string(sum) + " and the tensor has " +
                    std::to_string(rows_.count) + " rows; make them equal";
        return cause.empty() ? cause : located("alltoall", comm_.rank(), comm_.size(), cause);
    }

    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0:
                return make_agreement(comm_.context(), channel_, call_,
                                      [rows = rows_] { return "alltoall of " + rows_text(rows, scalar_name<E>()); });
            case 1: return exchange_counts();
            case 2: return agree_on_output();
            default: return exchange_rows();
        }
    }

    std::unique_ptr<Operation> exchange_counts() {
        const auto rank = static_cast<std::size_t>(comm_.rank());
        receive_counts_.assign(send_counts_.size(), 0);
        receive_counts_[rank] = send_counts_[rank];
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        for_each_peer(comm_.rank(), comm_.size(), [&](int peer) {
            const auto i = static_cast<std::size_t>(peer);
            transfers->receive(peer, &receive_counts_[i], sizeof(std::size_t));
            transfers->send(peer, &send_counts_[i], sizeof(std::size_t));
        });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_output() {
        std::size_t total = 0;
        for (std::size_t count : receive_counts_) total += count;
        Call call = Call::of("alltoall output");
        call.error = make_room(out_, rows_.shape_with(total), "alltoall", comm_.rank(), comm_.size());
        return make_agreement(comm_.context(), channel_, call, [] { return std::string{"alltoall"}; });
    }

    std::unique_ptr<Operation> exchange_rows() {
        const std::size_t p = send_counts_.size(), rank = static_cast<std::size_t>(comm_.rank());
        std::vector<std::size_t> from(p), to(p);
        for (std::size_t r = 1; r < p; ++r) {
            from[r] = from[r - 1] + send_counts_[r - 1] * rows_.width;
            to[r] = to[r - 1] + receive_counts_[r - 1] * rows_.width;
        }
        const auto bytes = [&](std::size_t rows) { return rows * rows_.width * sizeof(E); };
        E* out = data_of(out_);
        if (send_counts_[rank] > 0)
            std::memcpy(static_cast<void*>(out + to[rank]), in_ + from[rank], bytes(send_counts_[rank]));
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        for_each_peer(comm_.rank(), comm_.size(), [&](int peer) {
            const auto i = static_cast<std::size_t>(peer);
            transfers->receive(peer, out + to[i], bytes(receive_counts_[i]));
            transfers->send(peer, in_ + from[i], bytes(send_counts_[i]));
        });
        return transfers;
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    const E* in_;
    Rows rows_;
    std::vector<std::size_t> send_counts_;
    Out& out_;
    std::vector<std::size_t>& receive_counts_;
    Call call_;
};

}  // namespace detail

/// Sends the first `send_counts[0]` rows of `in` to rank 0, the next `send_counts[1]` to rank 1, and so on; counts may be 0
/// and must add up to the rows. `out` gets the rows from all ranks in rank order and is resized, or long enough. Returns how
/// many rows came from each rank. Collective.
template <class T, class A, class In, class Out>
std::vector<std::size_t> alltoall(const Communicator<T, A>& comm, const In& in, std::span<const std::size_t> send_counts,
                                  Out&& out) {
    std::vector<std::size_t> receive_counts;
    if constexpr (detail::explain_tensor<In>()) {
        if constexpr (detail::explain_writable<Out>()) {
            if constexpr (detail::explain_same_scalar<In, Out>()) {
                detail::AlltoallTask<T, A, In, std::remove_reference_t<Out>> task{comm, in, send_counts, out, receive_counts};
                detail::complete(comm, task, "alltoall");
            }
        }
    }
    return receive_counts;
}

/// Begins an alltoall; the tensors and `receive_counts` must outlive it.
template <class T, class A, class In, class Out>
Request alltoall_async(const Communicator<T, A>& comm, In&& in, std::span<const std::size_t> send_counts, Out&& out,
                       std::vector<std::size_t>& receive_counts) {
    if constexpr (detail::explain_lasting<In>()) {
        if constexpr (detail::explain_lasting<Out>()) {
            if constexpr (detail::explain_writable<Out>()) {
                if constexpr (detail::explain_same_scalar<In, Out>()) {
                    using Task = detail::AlltoallTask<T, A, std::remove_cvref_t<In>, std::remove_reference_t<Out>>;
                    return detail::begin_async(comm, std::make_unique<Task>(comm, in, send_counts, out, receive_counts),
                                               "alltoall");
                }
            }
        }
    }
    return {};
}

}  // namespace hvd
