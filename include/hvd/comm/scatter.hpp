// scatter: one rank's rows are dealt out to all.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hvd/comm/asynchronous.hpp>
#include <hvd/comm/output.hpp>
#include <hvd/core/explain.hpp>

namespace hvd {
namespace detail {

/// Agreement; the outputs' rows go to the root; the root, which knows the counts, tells each rank its own; rows follow.
template <class T, class A, class In, class Out>
class ScatterTask final : public StagedOperation {
public:
    /// Without `counts` the lengths of the outputs decide, or, when all are empty and can grow, shares are even.
    ScatterTask(const Communicator<T, A>& comm, const In& in, std::optional<std::span<const std::size_t>> counts, Out& out,
                int root)
        : StagedOperation{6}, comm_{comm}, channel_{comm.context().next_channel()}, in_{const_data_of(in)},
          in_rows_{rows_of(in)}, out_{out}, root_{root}, asked_(static_cast<std::size_t>(comm.size())),
          has_counts_{counts.has_value()} {
        call_ = Call::of(has_counts_ ? "scatter with counts" : "scatter");
        call_.with(scalar_id<E>).with(static_cast<std::uint64_t>(root));
        call_.error = root_error("scatter", root, comm.rank(), comm.size());
        if (is_root()) {
            if (has_counts_) given_.assign(counts->begin(), counts->end());
            if (call_.error.empty()) call_.error = shape_error(in, in_rows_, "scatter", comm.rank(), comm.size());
            if (call_.error.empty() && has_counts_ && given_.size() != asked_.size())
                call_.error = located("scatter", comm.rank(), comm.size(),
                                      "there are " + std::to_string(given_.size()) + " counts; give one per rank");
        }
        if (!comm.options().checks && !call_.error.empty()) throw UsageError{call_.error};
    }

private:
    using E = tensor_value_t<In>;

    struct Asked {
        std::size_t rows = 0;
        std::uint64_t can_grow = 0;
    };
    struct Told {
        std::size_t rows = 0, width = 0;
    };

    bool is_root() const { return comm_.rank() == root_; }

    std::unique_ptr<Operation> begin(int stage) override {
        switch (stage) {
            case 0:
                return make_agreement(comm_.context(), channel_, call_, [root = root_, counts = has_counts_] {
                    return "scatter of " + std::string{scalar_name<E>()} + (counts ? " by counts" : "") + " from rank " +
                           std::to_string(root);
                });
            case 1: return ask();
            case 2: return agree_on_counts();
            case 3: return tell();
            case 4: return agree_on_output();
            default: return deal();
        }
    }

    std::unique_ptr<Operation> ask() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        own_ = {rows_of(out_).count, Resizable<Out> ? 1u : 0u};
        if (!is_root()) transfers->send(root_, &own_, sizeof own_);
        else for_each_peer(comm_.rank(), comm_.size(), [&](int peer) {
            transfers->receive(peer, &asked_[static_cast<std::size_t>(peer)], sizeof(Asked));
        });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_counts() {
        Call call = Call::of("scatter counts");
        if (is_root()) {
            asked_[static_cast<std::size_t>(root_)] = own_;
            if (!has_counts_) decide();
            std::size_t sum = 0;
            for (std::size_t count : given_) sum += count;
            if (sum != in_rows_.count)
                call.error = located("scatter", comm_.rank(), comm_.size(),
                                     (has_counts_ ? "the counts" : "the outputs of all ranks") + std::string{" add up to "} +
                                         std::to_string(sum) + " rows and the root's tensor has " +
                                         std::to_string(in_rows_.count) + "; make them equal");
        }
        return make_agreement(comm_.context(), channel_, call, [] { return std::string{"scatter"}; });
    }

    void decide() {
        const std::size_t p = asked_.size();
        bool even = true;
        for (const Asked& a : asked_) even = even && a.rows == 0 && a.can_grow != 0;
        for (std::size_t r = 0; r < p; ++r)
            given_.push_back(even ? split_begin(in_rows_.count, p, r + 1) - split_begin(in_rows_.count, p, r) : asked_[r].rows);
    }

    std::unique_ptr<Operation> tell() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        if (!is_root()) {
            transfers->receive(root_, &told_, sizeof told_);
            return transfers;
        }
        for (std::size_t count : given_) tellings_.push_back({count, in_rows_.width});
        told_ = tellings_[static_cast<std::size_t>(root_)];
        for_each_peer(comm_.rank(), comm_.size(), [&](int peer) {
            transfers->send(peer, &tellings_[static_cast<std::size_t>(peer)], sizeof(Told));
        });
        return transfers;
    }

    std::unique_ptr<Operation> agree_on_output() {
        Call call = Call::of("scatter output");
        Rows rows = rows_of(out_);
        if (rows.trailing.empty() && told_.width != 1) rows.trailing = {told_.width};
        std::size_t width = 1;
        for (std::size_t extent : rows.trailing) width *= extent;
        if (told_.rows > 0 && width != told_.width && !rows_of(out_).trailing.empty())
            call.error = located("scatter", comm_.rank(), comm_.size(),
                                 "a row of the output has " + std::to_string(width) + " elements and one of the root's has " +
                                     std::to_string(told_.width) + "; make them equal");
        else call.error = make_room(out_, rows.shape_with(told_.rows), "scatter", comm_.rank(), comm_.size());
        return make_agreement(comm_.context(), channel_, call, [] { return std::string{"scatter"}; });
    }

    std::unique_ptr<Operation> deal() {
        auto transfers = std::make_unique<Transfers<T>>(channel_);
        const auto bytes = [&](std::size_t rows) { return rows * told_.width * sizeof(E); };
        if (!is_root()) {
            transfers->receive(root_, data_of(out_), bytes(told_.rows));
            return transfers;
        }
        const E* place = in_;
        for (int r = 0; r < comm_.size(); ++r) {
            const std::size_t rows = given_[static_cast<std::size_t>(r)];
            if (r != root_) transfers->send(r, place, bytes(rows));
            else if (rows > 0) std::memmove(static_cast<void*>(data_of(out_)), place, bytes(rows));
            place += rows * told_.width;
        }
        return transfers;
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    const E* in_;
    Rows in_rows_;
    Out& out_;
    int root_;
    Asked own_;
    Told told_;
    std::vector<Asked> asked_;
    std::vector<std::size_t> given_;
    std::vector<Told> tellings_;
    bool has_counts_;
    Call call_;
};

template <class T, class A, class In, class Out>
void scatter_rows(const Communicator<T, A>& comm, const In& in, std::optional<std::span<const std::size_t>> counts, Out& out,
                  int root) {
    ScatterTask<T, A, In, Out> task{comm, in, counts, out, root};
    complete(comm, task, "scatter");
}

template <class In, class Out>
consteval bool explain_scatter() {
    if constexpr (explain_tensor<In>()) {
        if constexpr (explain_writable<Out>()) return explain_same_scalar<In, Out>();
        else return false;
    } else {
        return false;
    }
}

}  // namespace detail

/// Deals the rows (dimension 0) of rank `root`'s `in` out in rank order: each rank gets as many as its `out` has, together
/// all of them; when all outputs are empty and can be resized, shares are even (the first ranks take one more). `in` is not
/// used on the other ranks. Collective.
template <class T, class A, class In, class Out>
void scatter(const Communicator<T, A>& comm, const In& in, Out&& out, int root) {
    if constexpr (detail::explain_scatter<In, Out>()) detail::scatter_rows(comm, in, std::nullopt, out, root);
}

/// The same with the number of rows for each rank, which counts on the root; `out` is resized, or long enough.
template <class T, class A, class In, class Out>
void scatter(const Communicator<T, A>& comm, const In& in, std::span<const std::size_t> counts, Out&& out, int root) {
    if constexpr (detail::explain_scatter<In, Out>()) detail::scatter_rows(comm, in, counts, out, root);
}

/// Begins a scatter by the lengths of the outputs; both tensors must outlive it.
template <class T, class A, class In, class Out>
Request scatter_async(const Communicator<T, A>& comm, In&& in, Out&& out, int root) {
    if constexpr (detail::explain_lasting<In>()) {
        if constexpr (detail::explain_lasting<Out>()) {
            if constexpr (detail::explain_scatter<In, Out>()) {
                using Task = detail::ScatterTask<T, A, std::remove_cvref_t<In>, std::remove_reference_t<Out>>;
                return detail::begin_async(comm, std::make_unique<Task>(comm, in, std::nullopt, out, root), "scatter");
            }
        }
    }
    return {};
}

}  // namespace hvd
