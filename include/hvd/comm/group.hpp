// Groups: the allreduce of a list of tensors, all or none, in few long messages.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/allreduce_task.hpp>
#include <hvd/core/tensor_list.hpp>

namespace hvd::detail {

/// Tensors of one element type, reduced in buckets: neighbours are packed together as long as they fit in a bucket; a
/// tensor as long as a bucket goes alone, without a copy.
template <class T, class A, Scalar E, class Op>
class GroupPart final : public Operation {
public:
    /// Packed buckets stay in the cache.
    static constexpr std::size_t bucket_bytes = std::size_t{1} << 20;

    GroupPart(const Communicator<T, A>& comm, Channel<T> channel, std::vector<std::span<E>> pieces, const Op& op,
              ReduceOptions options)
        : comm_{comm}, channel_{channel}, pieces_{std::move(pieces)}, op_{op}, options_{options} {}

    bool advance() override {
        while (first_ < pieces_.size()) {
            if (!reduction_) begin_bucket();
            if (!reduction_->advance()) return false;
            reduction_.reset();
            if (is_packed()) unpack();
            first_ = end_;
        }
        return true;
    }

    int waiting_for() const override { return reduction_ ? reduction_->waiting_for() : -1; }

private:
    bool is_packed() const { return end_ > first_ + 1; }

    void begin_bucket() {
        std::size_t bytes = pieces_[first_].size_bytes();
        end_ = first_ + 1;
        constexpr bool may_pack = !std::same_as<Op, Adasum>;  // which looks at whole tensors
        while (may_pack && end_ < pieces_.size() && bytes + pieces_[end_].size_bytes() <= bucket_bytes)
            bytes += pieces_[end_++].size_bytes();
        std::span<E> data = pieces_[first_];
        if (is_packed()) {
            if (bucket_.data() == nullptr) bucket_ = Loan{comm_.context().pool, bucket_bytes};
            auto* packed = reinterpret_cast<E*>(bucket_.data());
            data = {packed, bytes / sizeof(E)};
            for (std::size_t i = first_; i < end_; ++i) {
                if (!pieces_[i].empty())
                    std::memcpy(static_cast<void*>(packed), pieces_[i].data(), pieces_[i].size_bytes());
                packed += pieces_[i].size();
            }
        }
        reduction_.emplace(comm_, channel_, data, op_, options_);
    }

    void unpack() {
        const auto* packed = reinterpret_cast<const E*>(bucket_.data());
        for (std::size_t i = first_; i < end_; ++i) {
            if (!pieces_[i].empty())
                std::memcpy(static_cast<void*>(pieces_[i].data()), packed, pieces_[i].size_bytes());
            packed += pieces_[i].size();
        }
    }

    Communicator<T, A> comm_;
    Channel<T> channel_;
    std::vector<std::span<E>> pieces_;
    Op op_;
    ReduceOptions options_;
    std::size_t first_ = 0, end_ = 0;
    Loan bucket_;
    std::optional<Reducer<T, A, E, Op>> reduction_;
};

/// The agreement on the whole group, then its parts, one per element type.
template <class T, class A, class Op>
class GroupTask final : public Operation {
public:
    template <TensorList L>
    GroupTask(const Communicator<T, A>& comm, L&& list, const Op& op, ReduceOptions options)
        : channel_{comm.context().next_channel()}, turn_{comm.shared_context(), !is_tagged<A>()} {
        Call call = Call::of("allreduce");
        std::string words;
        std::size_t count = 0;
        for_each_tensor(list, [&]<class X>(X& x, std::size_t i) {
            constexpr std::size_t most = 6;
            const ScalarInfo& scalar = scalar_info<tensor_value_t<X>>;
            call.with(scalar.id).with(std::uint64_t{size_of(x)});
            if (i < most) words += (i > 0 ? ", " : "") + std::to_string(size_of(x)) + " " + std::string{scalar.name};
            else if (i == most) words += ", ...";
            ++count;
        });
        words = "of a group of " + std::to_string(count) + " tensors (" + words + ")";
        if (comm.options().checks)
            if (const auto twice = find_overlap(list))
                call.wrong(located("allreduce", comm.rank(), comm.size(),
                                   "tensors " + std::to_string(twice->first) + " and " + std::to_string(twice->second) +
                                       " of the list share memory; give each once"));
        call.with(std::uint64_t{count}).words(std::move(words)).template operation<Op>().scaled(options);
        agreement_.emplace(comm.context(), channel_, std::move(call));
        add_parts(comm, list, op, options);
    }

    bool advance() override {
        if (!has_agreed_ && !(has_agreed_ = agreement_->advance())) return false;
        if (!turn_.has_come()) return false;
        for (; part_ < parts_.size(); ++part_)
            if (!parts_[part_]->advance()) return false;
        return true;
    }

    int waiting_for() const override {
        if (!has_agreed_) return agreement_->waiting_for();
        return part_ < parts_.size() ? parts_[part_]->waiting_for() : -1;
    }

private:
    template <class L>
    void add_parts(const Communicator<T, A>& comm, L& list, const Op& op, ReduceOptions options) {
        if constexpr (TensorTuple<L>) {
            [&]<std::size_t... I>(std::index_sequence<I...>) { (add_part_of<I>(comm, list, op, options), ...); }
            (std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<L>>>{});
        } else {
            add_part<tensor_value_t<std::ranges::range_reference_t<L>>>(comm, list, op, options);
        }
    }

    /// The I-th tensor brings in all of its element type, unless an earlier one has.
    template <std::size_t I, class L>
    void add_part_of(const Communicator<T, A>& comm, L& list, const Op& op, ReduceOptions options) {
        using Tuple = std::remove_cvref_t<L>;
        using E = tensor_value_t<std::tuple_element_t<I, Tuple>>;
        constexpr bool is_first = []<std::size_t... J>(std::index_sequence<J...>) {
            return !(std::same_as<E, tensor_value_t<std::tuple_element_t<J, Tuple>>> || ...);
        }
        (std::make_index_sequence<I>{});
        if constexpr (is_first) add_part<E>(comm, list, op, options);
    }

    template <Scalar E, class L>
    void add_part(const Communicator<T, A>& comm, L& list, const Op& op, ReduceOptions options) {
        std::vector<std::span<E>> pieces;
        for_each_tensor(list, [&]<class X>(X& x, std::size_t) {
            if constexpr (std::same_as<tensor_value_t<X>, E>) pieces.emplace_back(data_of(x), size_of(x));
        });
        if (pieces.empty()) return;
        if constexpr (DeviceTransport<T>) {
            std::vector<DevicePiece<E>> all;
            for (const auto& piece : pieces) all.push_back({piece.data(), piece.data(), piece.size()});
            parts_.push_back(reduce_on_device(comm, channel_, std::move(all), op, options, {comm.transport().fence()}));
        } else {
            parts_.push_back(std::make_unique<GroupPart<T, A, E, Op>>(comm, channel_, std::move(pieces), op, options));
        }
    }

    Channel<T> channel_;
    Turn<T> turn_;
    std::optional<Agreement<T>> agreement_;
    bool has_agreed_ = false;
    std::vector<std::unique_ptr<Operation>> parts_;
    std::size_t part_ = 0;
};

}  // namespace hvd::detail
