// The least that each concept asks for: types that have exactly that, to compile generic code against.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <hvd/algorithm/algorithm.hpp>
#include <hvd/core/tensor_list.hpp>
#include <hvd/transport/transport.hpp>

namespace hvd::testing {

/// A tensor whose adapter has data(T&) and size(const T&) only.
struct MinimalTensor {
    std::unique_ptr<float[]> storage;
    std::size_t count = 0;
    explicit MinimalTensor(std::size_t n) : storage{new float[n == 0 ? 1 : n]()}, count{n} {}
};

/// A tensor that can be moved, not copied, default-constructed or resized.
using MoveOnlyTensor = MinimalTensor;

/// A handle: a copy refers to the same elements, which the handle itself does not show.
struct OpaqueHandle {
    int index = -1;

    static std::vector<std::vector<double>>& table() {
        thread_local std::vector<std::vector<double>> tensors;
        return tensors;
    }
    static OpaqueHandle make(std::size_t n) {
        table().emplace_back(n);
        return {static_cast<int>(table().size()) - 1};
    }
};

/// A tensor with rows, whose result may have another shape.
struct ShapedTensor {
    std::vector<std::size_t> extents{0, 2};
    std::vector<std::int32_t> storage{};
};

/// A scalar of the user's.
struct MinimalScalar {
    float value;
    std::int32_t place;
};

/// An operation on it.
struct LargestFirst {
    constexpr MinimalScalar operator()(MinimalScalar a, MinimalScalar b) const {
        return a.value > b.value || (a.value == b.value && a.place < b.place) ? a : b;
    }
};

/// A list of each kind.
using MinimalTuple = std::tuple<MinimalTensor&, ShapedTensor&>;
using MinimalRange = std::list<MinimalTensor>;

/// An algorithm with name, prepare and run only: every rank in turn hands what it has to the next.
struct MinimalAlgorithm {
    static constexpr std::string_view name = "minimal";
    struct State {};

    template <class T>
    State prepare(T&) const {
        return {};
    }
    template <class T, class E, class Op>
    void run(Channel<T> channel, State&, std::span<E> data, const Op& op) const {
        const int rank = channel.rank(), last = channel.size() - 1;
        const std::unique_ptr<E[]> other{new E[data.size() + 1]()};
        if (last == 0 || data.empty()) return;
        if (rank > 0) {  // the sum of those before
            pass(channel, channel.receive(rank - 1, other.get(), data.size_bytes()));
            for (std::size_t i = 0; i < data.size(); ++i) data[i] = op(other[i], data[i]);
        }
        if (rank < last) {
            pass(channel, channel.send(rank + 1, data.data(), data.size_bytes()));
            pass(channel, channel.receive(rank + 1, data.data(), data.size_bytes()));
        }
        if (rank > 0) pass(channel, channel.send(rank - 1, data.data(), data.size_bytes()));
    }

private:
    template <class T>
    static void pass(Channel<T> channel, typename Channel<T>::Message message) {
        channel.wait(message);
    }
};

/// A transport of one rank: nothing is ever sent.
class MinimalTransport {
public:
    static constexpr std::string_view name = "minimal";
    struct Message {};

    int rank() const { return 0; }
    int size() const { return 1; }
    const Topology& topology() const { return topology_; }
    Message send(int, int, const std::byte*, std::size_t) { return {}; }
    Message receive(int, int, std::byte*, std::size_t) { return {}; }
    bool test(Message&) { return true; }
    MinimalTransport subgroup(std::span<const int>, int) { return *this; }
    std::shared_ptr<hvd::detail::Worker> worker() { return worker_; }

private:
    Topology topology_ = Topology::blocks(0, 1, 1);
    std::shared_ptr<hvd::detail::Worker> worker_ = std::make_shared<hvd::detail::Worker>();
};

}  // namespace hvd::testing

template <>
inline constexpr bool hvd::enable_scalar<hvd::testing::MinimalScalar> = true;

template <>
struct hvd::tensor_traits<hvd::testing::MinimalTensor> {
    using value_type = float;
    static float* data(hvd::testing::MinimalTensor& x) { return x.storage.get(); }
    static std::size_t size(const hvd::testing::MinimalTensor& x) { return x.count; }
};

template <>
struct hvd::tensor_traits<hvd::testing::OpaqueHandle> {
    using value_type = double;
    static constexpr bool is_view = true;
    static double* data(hvd::testing::OpaqueHandle& x) { return x.table()[static_cast<std::size_t>(x.index)].data(); }
    static std::size_t size(const hvd::testing::OpaqueHandle& x) {
        return x.table()[static_cast<std::size_t>(x.index)].size();
    }
};

template <>
struct hvd::tensor_traits<hvd::testing::ShapedTensor> {
    using value_type = std::int32_t;
    static std::int32_t* data(hvd::testing::ShapedTensor& x) { return x.storage.data(); }
    static std::size_t size(const hvd::testing::ShapedTensor& x) { return x.storage.size(); }
    static std::vector<std::size_t> shape(const hvd::testing::ShapedTensor& x) { return x.extents; }
    static void resize(hvd::testing::ShapedTensor& x, std::span<const std::size_t> shape) {
        x.extents.assign(shape.begin(), shape.end());
        std::size_t n = 1;
        for (std::size_t extent : shape) n *= extent;
        x.storage.resize(n);
    }
};
