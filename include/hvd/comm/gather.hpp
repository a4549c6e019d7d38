// gather: the rows of all ranks, in rank order, on one of them.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

template <class T, class A, class In, class Out>
class GatherTask final : public StagedOperation {
public:
    GatherTask(const Communicator<T, A>& comm, const In& in, Out& out, int root)
        : StagedOperation{4}, comm_{comm}, channel_{comm.context().next_channel()}, in_{const_data_of(in)},
          rows_{rows_of(in)}, out_{out}, root_{root}, counts_(static_cast<std::size_t>(comm.size())) {
        call_ = Call::of("gather").with(scalar_id<E>).with(static_cast<std::uint64_t>(root));
        add_trailing(call_, rows_);
        call_.error = shape_error(in, rows_, "gather", comm.rank(), comm.size());
        if (call_.error.empty()) call_.error = root_error("gather", root, comm.rank(), comm.size());
        if (!comm.options().checks && !call_.error.empty()) throw UsageError{call_.error};
    }

private:
    using E = tensor_value_t<In>;
    bool is_root() const { return comm_.rank() == root_; }

    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0:
                return make_agreement(comm_.context(), channel_, call_, [rows = rows_, root = root_] {
                    return "gather of " + rows_text(rows, scalar_name<E>()) + " to rank " + std::to_string(root);
                });
            case 1: return collect_counts();
            case 2: return agree_on_output();
            default: return collect_rows();
        }
    }

    std::unique_ptr<Operation> collect_counts() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        if (!is_root()) transfers->send(root_, &rows_.count, sizeof rows_.count);
        else for_each_peer(comm_.rank(), comm_.size(), [&](int peer) {
            transfers->receive(peer, &counts_[static_cast<std::size_t>(peer)], sizeof(std::size_t));
        });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_output() {
        Call call = Call::of("gather output");
        if (is_root()) {
            counts_[static_cast<std::size_t>(root_)] = rows_.count;
            std::size_t total = 0;
            for (std::size_t count : counts_) total += count;
            call.error = make_room(out_, rows_.shape_with(total), "gather", comm_.rank(), comm_.size());
        }
        return make_agreement(comm_.context(), channel_, call, [] { return std::string{"gather"}; });
    }

    std::unique_ptr<Operation> collect_rows() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        if (!is_root()) {
            transfers->send(root_, in_, rows_.count * rows_.width * sizeof(E));
            return transfers;
        }
        E* place = data_of(out_);
        for (int r = 0; r < comm_.size(); ++r) {
            const std::size_t n = counts_[static_cast<std::size_t>(r)] * rows_.width;
            if (r != root_) transfers->receive(r, place, n * sizeof(E));
            else if (n > 0 && place != in_) std::memmove(static_cast<void*>(place), in_, n * sizeof(E));
            place += n;
        }
        return transfers;
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    const E* in_;
    Rows rows_;
    Out& out_;
    int root_;
    std::vector<std::size_t> counts_;
    Call call_;
};

}  // namespace detail

/// Concatenates the rows (dimension 0) of `in` of all ranks in `out` on rank `root`, in rank order; numbers of rows may
/// differ. `out` is resized, or long enough, on the root, and not used elsewhere. Collective.
template <class T, class A, class In, class Out>
void gather(const Communicator<T, A>& comm, const In& in, Out&& out, int root) {
    if constexpr (detail::explain_tensor<In>()) {
        if constexpr (detail::explain_writable<Out>()) {
            if constexpr (detail::explain_same_scalar<In, Out>()) {
                detail::GatherTask<T, A, In, std::remove_reference_t<Out>> task{comm, in, out, root};
                detail::complete(comm, task, "gather");
            }
        }
    }
}

/// Begins a gather; both tensors must outlive it.
template <class T, class A, class In, class Out>
Request gather_async(const Communicator<T, A>& comm, In&& in, Out&& out, int root) {
    if constexpr (detail::explain_lasting<In>()) {
        if constexpr (detail::explain_lasting<Out>()) {
            if constexpr (detail::explain_writable<Out>()) {
                if constexpr (detail::explain_same_scalar<In, Out>()) {
                    using Task = detail::GatherTask<T, A, std::remove_cvref_t<In>, std::remove_reference_t<Out>>;
                    return detail::begin_async(comm, std::make_unique<Task>(comm, in, out, root), "gather");
                }
            }
        }
    }
    return {};
}

}  // namespace hvd
