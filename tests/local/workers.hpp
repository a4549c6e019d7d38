// What the tests of collectives on threads share.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <hvd/hvd.hpp>
#include <hvd/testing/expect.hpp>
#include <hvd/testing/values.hpp>

namespace {

using hvd::testing::Buffer;
using hvd::testing::expect;
using hvd::testing::expect_throws;
using World = hvd::Communicator<hvd::Local>;

// Runs `body` on worlds of these sizes, with calls compared in shared memory and by messages; what it throws fails the
// test and is printed.
[[maybe_unused]] void on_workers(const std::vector<int>& sizes, const std::function<void(const World&)>& body,
                                 hvd::LaunchOptions options = {}) {
    for (int workers : sizes) {
        CAPTURE(workers);
        options.workers = workers;
        CHECK(hvd::launch<hvd::Local>(options, [&](auto& world) { body(world); }) == 0);
        CHECK_MESSAGE(hvd::launch<hvd::Local>(
                          options,
                          [&](auto& world) {
                              body(World{world.transport(), {}, {.checks = options.checks, .shared_memory = false}});
                          }) == 0,
                      "without shared memory");
    }
}

// The communicator is in order: all ranks are at the same call, and results are right.
template <class Communicator>
void expect_works(const Communicator& comm, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const int p = comm.size();
    long few[2] = {comm.rank(), 1};
    hvd::allreduce(comm, few);
    expect(few[0] == long{p} * (p - 1) / 2 && few[1] == p, "afterwards the communicator does not work", file, line);
    std::vector<int> many(2000, comm.rank());
    hvd::allreduce(comm, many, hvd::max);
    expect(many[1999] == p - 1, "afterwards the communicator does not work for long tensors", file, line);
}

// Every rank's call throws exactly a MismatchError, with the same text, and the communicator goes on. Returns the text.
template <class Communicator, class Call>
std::string expect_mismatch(const Communicator& comm, Call&& call, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
    const std::string text = expect_throws<hvd::MismatchError>(call, file, line);
    expect(text.starts_with("hvd: ") && text.find("rank") != text.npos, "the error names no ranks: " + text, file,
           line);
    for (const std::string& other : hvd::allgather_object(comm, text))
        expect(other == text, "the ranks have different texts:\n" + other + "\n" + text, file, line);
    expect_works(comm, file, line);
    return text;
}

// The call of rank `who` is wrong: it gets a UsageError, the others a MismatchError which names it.
template <class Communicator, class Call>
void expect_one_wrong(const Communicator& comm, int who, Call&& call, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
    std::string text;
    if (comm.rank() == who) {
        text = expect_throws<hvd::UsageError>(call, file, line);
        expect(text.starts_with("hvd: "), "the error does not begin as it should: " + text, file, line);
    } else {
        text = expect_throws<hvd::MismatchError>(call, file, line);
        expect(text.find("rank " + std::to_string(who)) != text.npos, "the error does not name the rank: " + text, file,
               line);
    }
    const std::vector<std::string> texts = hvd::allgather_object(comm, text);
    for (int r = 0; r < comm.size(); ++r) {
        if (r == who || comm.rank() == who) continue;
        expect(texts[static_cast<std::size_t>(r)] == text, "the ranks have different texts", file, line);
    }
    expect_works(comm, file, line);
}

// The call is wrong on every rank in a way that each can see.
template <class Communicator, class Call>
void expect_all_wrong(const Communicator& comm, Call&& call, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
    const std::string text = expect_throws<hvd::UsageError>(call, file, line);
    expect(text.starts_with("hvd: "), "the error does not begin as it should: " + text, file, line);
    expect_works(comm, file, line);
}

// A tensor of rows: a class with a shape, as a user's adapter has it.
struct Matrix {
    std::vector<std::size_t> shape{0, 3};
    std::vector<double> elements{};

    Matrix() = default;
    Matrix(std::size_t rows, std::size_t columns, double first = 0) : shape{rows, columns}, elements(rows * columns) {
        for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = first + static_cast<double>(i);
    }
};

}  // namespace

template <>
struct hvd::tensor_traits<Matrix> {
    using value_type = double;
    static double* data(Matrix& m) { return m.elements.data(); }
    static std::size_t size(const Matrix& m) { return m.elements.size(); }
    static std::vector<std::size_t> shape(const Matrix& m) { return m.shape; }
    static void resize(Matrix& m, std::span<const std::size_t> shape) {
        m.shape.assign(shape.begin(), shape.end());
        std::size_t n = 1;
        for (std::size_t extent : shape) n *= extent;
        m.elements.resize(n);
    }
};
