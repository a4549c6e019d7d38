// The concepts accept the least types, and refuse those that lack one thing.
#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <hvd/hvd.hpp>
#include <hvd/testing/archetypes.hpp>
#include <hvd/testing/counting_transport.hpp>

namespace {

using namespace hvd::testing;

static_assert(hvd::Tensor<MinimalTensor> && hvd::WritableTensor<MinimalTensor> && hvd::Tensor<const MinimalTensor>);
static_assert(!hvd::WritableTensor<const MinimalTensor>);
static_assert(hvd::Tensor<OpaqueHandle> && hvd::Tensor<ShapedTensor>);
static_assert(hvd::TensorList<MinimalTuple> && hvd::TensorList<MinimalRange> && hvd::TensorList<std::tuple<>>);
static_assert(hvd::TensorList<std::vector<std::vector<float>>> && hvd::TensorList<std::array<std::span<double>, 3>>);
static_assert(hvd::TensorList<std::pair<std::vector<float>&, std::vector<int>&>>);
static_assert(hvd::TensorList<std::deque<MinimalTensor>>);
static_assert(hvd::Scalar<MinimalScalar> && hvd::ReduceOperation<LargestFirst, MinimalScalar>);
static_assert(hvd::Transport<MinimalTransport> && hvd::Transport<hvd::Local> && hvd::Transport<Counting<hvd::Local>>);
static_assert(hvd::Algorithm<MinimalAlgorithm, MinimalTransport> && hvd::Algorithm<MinimalAlgorithm, hvd::Local>);
static_assert(hvd::Algorithm<hvd::Ring, MinimalTransport> && hvd::Algorithm<hvd::Auto, MinimalTransport>);
static_assert(hvd::Algorithm<hvd::Hierarchical<hvd::Tree, MinimalAlgorithm>, MinimalTransport>);

// Ranges as they are.
static_assert(hvd::Tensor<std::vector<float>> && hvd::Tensor<std::array<int, 3>> && hvd::Tensor<std::span<double>> &&
              hvd::Tensor<float[4]>);
static_assert(hvd::Tensor<std::span<const float>> && !hvd::WritableTensor<std::span<const float>>);
static_assert(hvd::Tensor<std::vector<std::complex<float>>> && hvd::Tensor<std::vector<hvd::float16>> &&
              hvd::Tensor<std::array<bool, 2>>);
static_assert(hvd::Tensor<std::vector<MinimalScalar>>);
// Not those.
static_assert(!hvd::Tensor<float> && !hvd::Tensor<float*> && !hvd::Tensor<std::tuple<float>> && !hvd::Tensor<void*>);
static_assert(!hvd::Tensor<std::vector<bool>> && !hvd::Tensor<std::list<float>> && !hvd::Tensor<std::deque<float>>);
static_assert(!hvd::Tensor<std::vector<std::vector<float>>> && !hvd::Tensor<std::vector<std::string>> &&
              !hvd::Tensor<std::vector<float*>>);
static_assert(!hvd::Tensor<std::map<int, float>>);
static_assert(!hvd::TensorList<std::vector<float>> && !hvd::TensorList<std::tuple<float, float>> &&
              !hvd::TensorList<float>);
static_assert(!hvd::TensorList<std::tuple<std::vector<float>&, int&>>);

// Scalars.
static_assert(hvd::Scalar<bool> && hvd::Scalar<char> && hvd::Scalar<long long> && hvd::Scalar<wchar_t> &&
              hvd::Scalar<std::uint8_t>);
static_assert(hvd::Scalar<hvd::float16> && hvd::Scalar<hvd::bfloat16> && hvd::Scalar<std::complex<double>>);
static_assert(!hvd::Scalar<long double> && !hvd::Scalar<const float> && !hvd::Scalar<int*> &&
              !hvd::Scalar<std::complex<long double>>);
struct Unknown {
    int x;
};
struct NotCopyable {
    std::string x;
};
static_assert(!hvd::Scalar<Unknown> && !hvd::Scalar<NotCopyable>);

// Operations.
static_assert(hvd::ReduceOperation<hvd::Sum, float> && hvd::ReduceOperation<hvd::Max, bool> &&
              hvd::ReduceOperation<hvd::Adasum, hvd::float16>);
static_assert(!hvd::ReduceOperation<hvd::Sum, bool> && !hvd::ReduceOperation<hvd::Min, std::complex<float>>);
static_assert(!hvd::ReduceOperation<hvd::Adasum, int> && !hvd::ReduceOperation<hvd::Sum, MinimalScalar>);
static_assert(!hvd::ReduceOperation<LargestFirst, float> && !hvd::ReduceOperation<int, float>);

// Near misses: each lacks one clause.
struct NoWorker : MinimalTransport {
    NoWorker subgroup(std::span<const int>, int) { return *this; }
    void worker() = delete;
};
struct OtherSubgroup : MinimalTransport {};  // whose subgroup is of the base
struct NoName {
    struct Message {};
    int rank() const { return 0; }
};
struct BlockingSend : MinimalTransport {
    void send(int, int, const std::byte*, std::size_t) {}
    BlockingSend subgroup(std::span<const int>, int) { return *this; }
};
static_assert(!hvd::Transport<NoWorker> && !hvd::Transport<OtherSubgroup> && !hvd::Transport<NoName> &&
              !hvd::Transport<BlockingSend> && !hvd::Transport<int>);
struct NoPrepare {
    static constexpr std::string_view name = "no_prepare";
    template <class T, class S, class E, class Op>
    void run(hvd::Channel<T>, S&, std::span<E>, const Op&) const {}
};
struct Nameless : MinimalAlgorithm {
    static constexpr int name = 3;
};
struct NoRun {
    static constexpr std::string_view name = "no_run";
    template <class T>
    int prepare(T&) const {
        return 0;
    }
};
static_assert(!hvd::Algorithm<NoPrepare, hvd::Local> && !hvd::Algorithm<Nameless, hvd::Local> &&
              !hvd::Algorithm<NoRun, hvd::Local>);

// Objects.
struct Members {
    std::string name;
    template <class Archive>
    void serialize(Archive& a) {
        a(name);
    }
};
static_assert(hvd::Serializable<int> && hvd::Serializable<std::string> &&
              hvd::Serializable<std::vector<std::vector<std::string>>> && hvd::Serializable<Members>);
static_assert(!hvd::Serializable<int*> && !hvd::Serializable<NotCopyable> && !hvd::Serializable<std::vector<int*>> &&
              !hvd::Serializable<std::span<int>>);

}  // namespace

TEST_CASE("a communicator on the least transport") {
    const hvd::Communicator comm{MinimalTransport{}};
    MinimalTensor x{3};
    x.storage[2] = 4;
    hvd::allreduce(comm, x);
    CHECK(x.storage[2] == 4);
    hvd::allreduce(comm, x, hvd::average, {.postscale = 0.5});
    CHECK(x.storage[2] == 2);
    const auto all = hvd::allgather(comm, std::vector<int>{1, 2});
    CHECK(all.size() == 2);
    hvd::broadcast(comm, x, 0);
    CHECK_THROWS_AS(hvd::broadcast(comm, x, 1), hvd::UsageError);
    CHECK(comm.split(0).size() == 1);
}

TEST_CASE("the least types between three threads") {
    CHECK(hvd::launch<hvd::Local>(3, [](auto& world) {
              const auto comm = world.with(MinimalAlgorithm{});
              MinimalTensor a{5};
              a.storage[4] = 1;
              OpaqueHandle handle = OpaqueHandle::make(4);
              handle.table()[0][3] = 2;
              ShapedTensor shaped{{2, 2}, {1, 2, 3, world.rank()}}, gathered;
              std::vector<MinimalScalar> scalars{{static_cast<float>(world.rank()), world.rank()}, {1, world.rank()}};
              hvd::allreduce(comm, a);
              hvd::allreduce(comm, handle);
              hvd::allreduce(comm, OpaqueHandle{handle}, hvd::max);
              hvd::allreduce(comm, std::tie(a, shaped));
              hvd::allreduce(comm, scalars, LargestFirst{});
              hvd::allgather(comm, shaped, gathered);
              MinimalRange list;
              list.emplace_back(2);
              list.emplace_back(3);
              list.back().storage[2] = 1;
              hvd::allreduce(comm, list);
              const bool right = a.storage[4] == 9 && handle.table()[0][3] == 6 && shaped.storage[3] == 3 &&
                                 scalars[0].place == 2 && scalars[1].place == 0 &&
                                 gathered.extents == std::vector<std::size_t>{6, 2} && list.back().storage[2] == 3;
              if (!right) throw std::runtime_error{"a result is wrong"};
          }) == 0);
}
