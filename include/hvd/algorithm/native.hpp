// Native: the allreduce that the transport itself brings (MPI_Iallreduce). Where it brings none, or none for an element
// type or operation, the ring.
#pragma once

#include <hvd/algorithm/ring.hpp>

namespace hvd {

/// Allreduce by the transport's own library.
struct Native {
    static constexpr std::string_view name = "native";
    static constexpr bool is_tagged = false;  // such a library pairs calls by their order

    template <Transport T>
    detail::ScratchState prepare(T&) const {
        return {};
    }

    template <Transport T, Scalar E, class Op>
    std::unique_ptr<detail::Operation> start(Channel<T> channel, detail::ScratchState& state, std::span<E> data,
                                             const Op& op) const {
        if constexpr (requires { channel.transport().start_allreduce(data, op); }) {
            return channel.transport().start_allreduce(data, op);
        } else {
            return Ring{}.start_fold(channel, state, data.data(), data.size(), Fold::of<E>(op));
        }
    }

    template <Transport T, Scalar E, class Op>
    void run(Channel<T> channel, detail::ScratchState& state, std::span<E> data, const Op& op) const {
        detail::run_started(*this, channel, state, data, op);
    }
};

}  // namespace hvd
