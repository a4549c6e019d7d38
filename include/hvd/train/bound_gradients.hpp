// Bound gradients: tensors that let their elements live in memory of ours, side by side and shared within the node, so that
// a step needs neither pack nor unpack nor copy.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <hvd/comm/communicator.hpp>
#include <hvd/core/tensor_list.hpp>

namespace hvd::detail {

/// Tensors on devices stay where they are: the devices' library takes them there.
template <class X>
concept Rebindable = std::same_as<memory_space_t<X>, HostMemory> && requires(X& x, tensor_value_t<X>* storage) {
    TensorTraits<X>::rebind(x, storage);
};

/// Memory that tensors were left with when the optimizer went: nobody knows when they stop using it.
inline void keep_for_ever(std::unique_ptr<std::byte[]> memory) {
    static std::mutex mutex;
    static std::vector<std::unique_ptr<std::byte[]>> kept;
    const std::scoped_lock lock{mutex};
    kept.push_back(std::move(memory));
}

class BoundGradients {
public:
    /// Collective. Moves all tensors of the list that can be rebound, the last first, as backward makes them ready.
    template <class Comm, class L>
    void bind(const Comm& comm, L&& list) {
        places_.clear();
        std::size_t bytes = 0;
        std::vector<std::size_t> sizes, aligned;
        for_each_tensor(list, [&]<class X>(X& x, std::size_t) {
            sizes.push_back(Rebindable<X> ? size_of(x) * sizeof(tensor_value_t<X>) : 0);
        });
        places_.resize(sizes.size());
        for (std::size_t i = sizes.size(); i-- > 0;) {
            bytes = (bytes + 15) / 16 * 16;  // for elements of any type
            if (sizes[i] > 0) places_[i] = bytes + 1;
            bytes += sizes[i];
        }
        auto memory = comm.template allocate_shared<unsigned char>(bytes);
        move_to(list, reinterpret_cast<std::byte*>(memory.data()));
        memory_ = std::move(memory);
    }

    /// Position of gradient i in the buffer, plus one; 0 when it lives elsewhere.
    std::uint64_t place(std::size_t i) const { return i < places_.size() ? places_[i] : 0; }
    bool is_bound() const { return memory_.size() > 0; }

    /// Gives the tensors memory that stays.
    template <class L>
    void release(L&& list) {
        if (!is_bound()) return;
        auto memory = std::make_unique<std::byte[]>(memory_.size());
        move_to(list, memory.get());
        keep_for_ever(std::move(memory));
        memory_ = {};
        places_.clear();
    }

private:
    template <class L>
    void move_to(L&& list, std::byte* base) {
        for_each_tensor(list, [&]<class X>(X& x, std::size_t i) {
            if constexpr (Rebindable<X>) {
                if (places_[i] == 0) return;
                auto* storage = reinterpret_cast<tensor_value_t<X>*>(base + places_[i] - 1);
                std::memcpy(static_cast<void*>(storage), data_of(x), size_of(x) * sizeof(tensor_value_t<X>));
                TensorTraits<X>::rebind(x, storage);
            }
        });
    }

    SharedArray<unsigned char> memory_;
    std::vector<std::uint64_t> places_;
};

}  // namespace hvd::detail
