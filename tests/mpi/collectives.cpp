// Every collective over MPI, beside MPI's own result.
#include "mpi_world.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include <hvd/hvd.hpp>

namespace {

// A program that has MPI already: its communicator, another algorithm, pretended nodes of two.
auto world() { return hvd::Communicator{hvd::Mpi{hvd_test::comm(), 2}, hvd::Ring{}}; }

int rank() { return hvd_test::rank(); }
int size() { return hvd_test::size(); }
std::size_t p() { return static_cast<std::size_t>(size()); }

// Rows and where they begin, as MPI wants them.
struct Counts {
    std::vector<int> count, begin;
    explicit Counts(std::vector<int> counts) : count{std::move(counts)}, begin(count.size()) {
        std::exclusive_scan(count.begin(), count.end(), begin.begin(), 0);
    }
    int total() const { return begin.back() + count.back(); }
};

std::vector<double> numbers(std::size_t n) {
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = 1000 * rank() + static_cast<double>(i);
    return x;
}

}  // namespace

TEST_CASE("places") {
    const auto comm = world();
    REQUIRE(comm.rank() == rank());
    REQUIRE(comm.size() == size());
    REQUIRE(comm.local_rank() == rank() % 2);
    REQUIRE(comm.local_size() == (rank() / 2 * 2 + 1 < size() ? 2 : 1));
    REQUIRE(comm.cross_rank() == rank() / 2);
    REQUIRE(comm.cross_size() == (rank() % 2 == 0 ? (size() + 1) / 2 : size() / 2));
    REQUIRE(comm.is_homogeneous() == (size() % 2 == 0 || size() == 1));
    REQUIRE(comm.transport().thread_level() == MPI_THREAD_MULTIPLE);
}

TEST_CASE("broadcast and reduce from and to every root") {
    const auto comm = world();
    for (int root = 0; root < size(); ++root) {
        for (std::size_t n : {1u, 1000u, 50000u}) {
            std::vector<double> x = numbers(n), by_mpi = x, y = x, sum(n);
            hvd::broadcast(comm, x, root);
            MPI_Bcast(by_mpi.data(), static_cast<int>(n), MPI_DOUBLE, root, hvd_test::comm());
            REQUIRE(x == by_mpi);
            MPI_Reduce(y.data(), sum.data(), static_cast<int>(n), MPI_DOUBLE, MPI_SUM, root, hvd_test::comm());
            hvd::reduce(comm, y, root);
            if (rank() == root) REQUIRE(y == sum);  // whole numbers, so exact
        }
    }
}

TEST_CASE("allgather, gather and scatter of different counts") {
    const auto comm = world();
    std::vector<int> rows(p());
    for (int r = 0; r < size(); ++r) rows[static_cast<std::size_t>(r)] = (r * 5 + 3) % 7 * (r == 1 ? 0 : 400);
    const Counts counts{rows};
    const std::vector<double> mine = numbers(static_cast<std::size_t>(rows[static_cast<std::size_t>(rank())]));
    std::vector<double> by_mpi(static_cast<std::size_t>(counts.total()));
    const int own = static_cast<int>(mine.size());
    MPI_Allgatherv(mine.data(), own, MPI_DOUBLE, by_mpi.data(), counts.count.data(), counts.begin.data(), MPI_DOUBLE,
                   hvd_test::comm());
    REQUIRE(hvd::allgather(comm, mine) == by_mpi);
    for (int root = 0; root < size(); ++root) {
        std::vector<double> gathered, dealt(mine.size());
        hvd::gather(comm, mine, gathered, root);
        if (rank() == root) REQUIRE(gathered == by_mpi);
        hvd::scatter(comm, gathered, dealt, root);
        REQUIRE(dealt == mine);
    }
}

TEST_CASE("alltoall") {
    const auto comm = world();
    std::vector<int> to(p()), from(p());
    for (int r = 0; r < size(); ++r) {
        to[static_cast<std::size_t>(r)] = (rank() * 3 + r * 2) % 5 * 300;
        from[static_cast<std::size_t>(r)] = (r * 3 + rank() * 2) % 5 * 300;
    }
    const Counts sends{to}, receives{from};
    const std::vector<double> in = numbers(static_cast<std::size_t>(sends.total()));
    std::vector<double> out, by_mpi(static_cast<std::size_t>(receives.total()));
    MPI_Alltoallv(in.data(), sends.count.data(), sends.begin.data(), MPI_DOUBLE, by_mpi.data(), receives.count.data(),
                  receives.begin.data(), MPI_DOUBLE, hvd_test::comm());
    const auto received = hvd::alltoall(comm, in, std::vector<std::size_t>(to.begin(), to.end()), out);
    REQUIRE(out == by_mpi);
    REQUIRE(std::vector<int>(received.begin(), received.end()) == from);
}

TEST_CASE("reduce_scatter") {
    const auto comm = world();
    for (std::size_t n : {std::size_t{0}, p() - 1, 4 * p() + p() / 2, std::size_t{20011}}) {
        std::vector<int> shares(p());
        for (std::size_t r = 0; r < p(); ++r) shares[r] = static_cast<int>(n / p() + (r < n % p() ? 1 : 0));
        const std::vector<double> in = numbers(n);
        std::vector<double> out, by_mpi(static_cast<std::size_t>(shares[static_cast<std::size_t>(rank())]));
        MPI_Reduce_scatter(in.data(), by_mpi.data(), shares.data(), MPI_DOUBLE, MPI_SUM, hvd_test::comm());
        hvd::reduce_scatter(comm, in, out);
        REQUIRE(out == by_mpi);
    }
}

TEST_CASE("objects, barrier, groups, adasum") {
    const auto comm = world();
    std::string word = rank() == size() - 1 ? "from the last" : "";
    hvd::broadcast_object(comm, word, size() - 1);
    REQUIRE(word == "from the last");
    const auto words = hvd::allgather_object(comm, std::string(static_cast<std::size_t>(rank()) * 2000, 'x'));
    for (std::size_t r = 0; r < p(); ++r) REQUIRE(words[r].size() == r * 2000);
    hvd::barrier(comm);
    std::vector<float> a(1000, 1);
    std::vector<std::int64_t> b(3, rank());
    std::vector<hvd::float16> c(5, hvd::float16{0.5f});
    hvd::allreduce(comm, std::tie(a, b, c));
    REQUIRE(a[999] == static_cast<float>(size()));
    REQUIRE(b[2] == std::int64_t{size()} * (size() - 1) / 2);
    REQUIRE(static_cast<float>(c[4]) == 0.5f * static_cast<float>(size()));
    std::vector<float> orthogonal(p());
    orthogonal[static_cast<std::size_t>(rank())] = 3;
    hvd::allreduce(comm, orthogonal, hvd::adasum);
    for (float x : orthogonal) REQUIRE(x == doctest::Approx(3));
}

TEST_CASE("errors reach every rank, and the communicator goes on") {
    const auto comm = world();
    std::vector<float> uneven(static_cast<std::size_t>(rank()) + 1), x(3);
    if (size() > 1) {
        for (int turn = 0; turn < 3; ++turn) {
            std::string text;
            try {
                if (turn < 2) hvd::allreduce(comm, uneven);
                else if (rank() == 0) hvd::barrier(comm);
                else hvd::broadcast(comm, x, 0);
            } catch (const hvd::MismatchError& e) {
                text = e.what();
            }
            REQUIRE(text.starts_with("hvd: "));
            for (const auto& other : hvd::allgather_object(comm, text)) REQUIRE(other == text);
        }
        REQUIRE_THROWS_AS(hvd::broadcast_async(comm, uneven, 0).wait(), hvd::MismatchError);
        bool named = false;
        try {
            hvd::broadcast(comm, x, rank() == 1 ? -1 : 0);
        } catch (const hvd::UsageError& e) {
            named = std::string{e.what()}.find("rank 1") != std::string::npos;
        }
        REQUIRE(named);
    }
    REQUIRE_THROWS_AS(hvd::broadcast(comm, x, size()), hvd::UsageError);
    std::vector<int> one{1};
    hvd::allreduce(comm, one);
    REQUIRE(one[0] == size());
}

TEST_CASE("split and subset work at the same time") {
    const auto comm = world();
    const auto parity = comm.split(rank() % 2, -rank());
    std::vector<int> members;
    for (int r = size() - 1; r >= 0; r -= 2) members.push_back(r);
    const auto some = comm.subset(members);
    REQUIRE(parity.size() == (size() + 1 - rank() % 2) / 2);
    for (int round = 0; round < 20; ++round) {
        std::vector<int> a(static_cast<std::size_t>(1 + round * 500), 1), b = a, c = a;
        hvd::Request all = hvd::allreduce_async(comm, a), in_some, in_parity;
        if (rank() % 2 == 0) in_parity = hvd::allreduce_async(parity, b);
        if (some.is_member()) in_some = hvd::allreduce_async(some, c);
        if (rank() % 2 == 1) in_parity = hvd::allreduce_async(parity, b);
        if (rank() % 3 == 0) all.wait();
        in_some.wait();
        in_parity.wait();
        all.wait();
        REQUIRE(a.back() == size());
        REQUIRE(b.back() == parity.size());
        REQUIRE(c.back() == (some.is_member() ? some.size() : 1));
    }
    if (parity.rank() == 0) REQUIRE(rank() >= size() - 2);
}

TEST_CASE("communicators come and go") {
    const auto comm = world();
    for (int round = 0; round < 100; ++round) {
        const auto part = comm.split(rank() * 2 / size());
        std::vector<int> x{1};
        hvd::allreduce(part, x);
        REQUIRE(x[0] == part.size());
    }
}
