// A suite that any allreduce algorithm can be run through, on any transport.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <hvd/comm/allgather.hpp>
#include <hvd/comm/allreduce.hpp>
#include <hvd/comm/broadcast.hpp>
#include <hvd/comm/object.hpp>
#include <hvd/testing/expect.hpp>
#include <hvd/testing/values.hpp>

namespace hvd::testing {

/// A list of element types.
template <Scalar... E>
struct Elements {};

using IntegerElements = Elements<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                                 std::uint32_t, std::uint64_t>;
using FloatingElements = Elements<float16, bfloat16, float, double>;
using OtherElements = Elements<bool, std::complex<float>, std::complex<double>>;
using AllElements =
    Elements<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
             std::uint64_t, float16, bfloat16, float, double, std::complex<float>, std::complex<double>>;

/// What `check_algorithm` tries.
struct AlgorithmSuiteOptions {
    /// Lengths for float and int32 sums; empty: 0, 1, p-1, p, p+1, 17, 17^2, 17^3 and 100003.
    std::vector<std::size_t> lengths{};
    /// Lengths for every element type and operation; empty: 1 and 2p+3.
    std::vector<std::size_t> type_lengths{};
    /// How many operations are under way at once.
    std::size_t at_once = 7;
};

namespace detail {

/// The results of one rank, and what was wrong with them.
class Findings {
public:
    void result(const std::string& what, const void* data, std::size_t bytes) {
        names_.push_back(what);
        hashes_.push_back(hash_of(data, bytes));
    }
    void wrong(std::string sentence) {
        ++wrong_;
        if (sentences_.size() < most) sentences_.push_back(std::move(sentence));
    }

    /// Collective: throws the same Failure on every rank when anything was wrong on any, or when results differ in a bit.
    template <class T, class A>
    void settle(const Communicator<T, A>& comm) {
        std::vector<std::uint64_t> first = hashes_;
        expect(first.size() == names_.size(), "every result has a name");
        broadcast(comm, first, 0);
        for (std::size_t i = 0; i < first.size(); ++i)
            if (first[i] != hashes_[i])
                wrong(names_[i] + ": the result on rank " + std::to_string(comm.rank()) +
                      " differs in its bits from rank 0's");
        std::string text;
        std::size_t told = 0;
        for (const auto& sentences : allgather_object(comm, sentences_))
            for (const std::string& sentence : sentences)
                if (told++ < most) text += "\n  " + sentence;
        std::vector<std::size_t> wrong_everywhere(1, wrong_);
        std::size_t all = 0;
        for (std::size_t n : allgather(comm, wrong_everywhere)) all += n;
        if (all > 0) throw Failure{std::to_string(all) + " checks failed:" + text};
    }

private:
    static constexpr std::size_t most = 5;
    std::vector<std::string> names_;
    std::vector<std::uint64_t> hashes_;
    std::vector<std::string> sentences_;
    std::size_t wrong_ = 0;
};

template <class T, class A>
class AlgorithmSuite {
public:
    AlgorithmSuite(const Communicator<T, A>& comm, AlgorithmSuiteOptions options)
        : comm_{comm}, options_{std::move(options)} {
        const auto p = static_cast<std::size_t>(comm.size());
        if (options_.lengths.empty()) options_.lengths = {0, 1, p - 1, p, p + 1, 17, 17 * 17, 17 * 17 * 17, 100003};
        if (options_.type_lengths.empty()) options_.type_lengths = {1, 2 * p + 3};
    }

    template <class... E>
    void run(Elements<E...>) {
        for (std::size_t n : options_.lengths) {
            tensor<float>(n, sum);
            tensor<std::int32_t>(n, sum);
            out_of_place(n);
        }
        (every_operation<E>(), ...);
        own_operation();
        many_at_once();
        findings_.settle(comm_);
    }

private:
    template <class E>
    void every_operation() {
        const auto try_all = [&](auto... op) { (try_operation<E>(op), ...); };
        try_all(sum, average, product, min, max);
    }
    template <class E, class Op>
    void try_operation(const Op& op) {
        if constexpr (ReduceOperation<Op, E>)
            for (std::size_t n : options_.type_lengths) tensor<E>(n, op);
    }

    template <class E, class Op>
    std::string title(std::size_t n) const {
        return std::string{std::string_view{A::name}} + " on " + std::to_string(comm_.size()) + " ranks, " +
               std::to_string(n) + " " + std::string{hvd::detail::scalar_name<E>()} + " with " +
               std::string{hvd::detail::op_name<Op>()};
    }

    /// In place, twice.
    template <class E, class Op>
    void tensor(std::size_t n, const Op& op) {
        const std::string what = title<E, Op>(n);
        constexpr bool is_product = std::same_as<Op, Product>;
        const Buffer<E> data{comm_.rank(), n, is_product}, again{comm_.rank(), n, is_product};
        allreduce(comm_, data.span(), op);
        compare<E, Op>(what, data.span());
        allreduce(comm_, again.span(), op);
        if (n > 0 && std::memcmp(static_cast<const void*>(data.span().data()), again.span().data(), n * sizeof(E)) != 0)
            findings_.wrong(what + ": a second run gave other bits");
    }

    template <class E, class Op>
    void compare(const std::string& what, std::span<const E> got) {
        findings_.result(what, got.data(), got.size_bytes());
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (Expected<E, Op>{comm_.size(), i}.is(got[i])) continue;
            findings_.wrong(what + ": element " + std::to_string(i) + " is wrong on rank " +
                            std::to_string(comm_.rank()));
            return;
        }
    }

    void out_of_place(std::size_t n) {
        const Buffer<double> in{comm_.rank(), n}, untouched{comm_.rank(), n};
        std::vector<double> out(n / 2);
        allreduce(comm_, in.span(), out, sum);
        const std::string what = title<double, Sum>(n) + ", out of place";
        if (out.size() != n) return findings_.wrong(what + ": the output was not resized");
        compare<double, Sum>(what, out);
        if (n > 0 && std::memcmp(in.span().data(), untouched.span().data(), n * sizeof(double)) != 0)
            findings_.wrong(what + ": the input was changed");
    }

    /// One with a state of its own, which no library below can know.
    void own_operation() {
        std::uint32_t mask = 0xffffu;
        for (std::size_t n : options_.type_lengths) {
            const Buffer<std::uint32_t> data{comm_.rank(), n};
            allreduce(comm_, data.span(), [mask](std::uint32_t a, std::uint32_t b) { return (a ^ b) & mask; });
            const std::string what = title<std::uint32_t, Sum>(n) + " replaced by a function with state";
            findings_.result(what, data.span().data(), data.span().size_bytes());
            for (std::size_t i = 0; i < n; ++i) {
                std::uint32_t want = 0;
                for (int r = 0; r < comm_.size(); ++r) want ^= value<std::uint32_t>(r, i);
                if (data.span()[i] == want) continue;
                findings_.wrong(what + ": element " + std::to_string(i) + " is wrong");
                break;
            }
        }
    }

    /// Operations of different lengths under way together, waited for in another order on every rank.
    void many_at_once() {
        const std::size_t k = options_.at_once;
        std::vector<Buffer<float>> data;
        std::vector<Request> requests;
        for (std::size_t i = 0; i < k; ++i)
            data.emplace_back(comm_.rank(), options_.lengths[(i * 5 + 3) % options_.lengths.size()] + i);
        for (std::size_t i = 0; i < k; ++i) requests.push_back(allreduce_async(comm_, data[i].span(), sum));
        for (std::size_t i = 0; i < k; ++i) {
            const std::size_t turn = (i + static_cast<std::size_t>(comm_.rank())) % k;
            requests[comm_.rank() % 2 == 0 ? turn : k - 1 - turn].wait();
        }
        for (std::size_t i = 0; i < k; ++i)
            compare<float, Sum>(title<float, Sum>(data[i].size()) + ", operation " + std::to_string(i) + " of many",
                                data[i].span());
    }

    Communicator<T, A> comm_;
    AlgorithmSuiteOptions options_;
    Findings findings_;
};

}  // namespace detail

/// Collective: runs `algorithm` between the ranks of `world` over lengths, element types and operations, twice each and
/// several at once, against a reference; results must be equal in every bit on all ranks and from run to run. Throws the
/// same Failure on all ranks, with what was wrong. An algorithm that is stuck is StallError's matter: set HVD_STALL_*.
/// `check_algorithm<Elements<float>>(world, algorithm)` tries less and compiles faster.
template <class Tried = AllElements, class T, class A, class Algorithm>
void check_algorithm(const Communicator<T, A>& world, Algorithm algorithm, AlgorithmSuiteOptions options = {}) {
    detail::AlgorithmSuite<T, Algorithm>{world.with(std::move(algorithm)), std::move(options)}.run(Tried{});
}

}  // namespace hvd::testing
