// Direct where ranks cannot read each other's tensors, as between processes: slots, shared arrays, and both at once, with
// pauses in every phase; and the collectives that go the same way.
#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <numeric>

#include <hvd/testing/apart_transport.hpp>

#include "every_algorithm.hpp"
#include "sweep.hpp"

namespace {

using hvd::testing::ApartTransport;
using hvd::testing::expect;
using DirectRing = hvd::Hierarchical<hvd::Direct, hvd::Ring>;
using Tried = OneOf<hvd::Direct, DirectRing>;
using Few = hvd::testing::Elements<std::int8_t, hvd::float16, hvd::bfloat16, double, std::complex<float>>;

constexpr hvd::Direct tiny{.slot_bytes = 4096, .slots = 2};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int small_operations = 20000;
#else
constexpr int small_operations = 1000000;
#endif

// A short random rest of the calling thread, now and then.
void rest_at_random() {
    static std::atomic<unsigned> threads = 0;
    thread_local unsigned random = 2654435761u * ++threads;
    random = random * 1664525u + 1013904223u;
    const unsigned choice = random >> 24;
    if (choice < 8) {
        const timespec time{0, static_cast<long>(random >> 8 & 0x3ffff)};
        ::nanosleep(&time, nullptr);
    } else if (choice < 96) {
        ::sched_yield();
    }
}

template <class World, class A>
auto apart(World& world, A algorithm, hvd::CommunicatorOptions options = {}) {
    return hvd::Communicator{ApartTransport{world.transport()}, std::move(algorithm), options};
}

double value(int rank, std::size_t i) {
    return static_cast<double>((static_cast<std::size_t>(rank) * 31 + i * 7) % 1000);
}

// Private memory on some ranks and shared on others: all, none, the even ones.
enum class Memory { Private, Shared, Mixed };

// A vector, or a shared array of the same length.
template <class C>
class Room {
public:
    Room(const C& comm, std::size_t n, Memory memory) : own_(n), shared_{comm.template allocate_shared<double>(n)} {
        is_shared_ = memory == Memory::Shared || (memory == Memory::Mixed && comm.rank() % 2 == 0);
        for (std::size_t i = 0; i < n; ++i) span()[i] = value(comm.rank(), i);
    }
    std::span<double> span() {
        return is_shared_ ? std::span<double>{shared_.data(), shared_.size()} : std::span<double>{own_};
    }

private:
    std::vector<double> own_;
    hvd::SharedArray<double> shared_;
    bool is_shared_;
};

// Every collective once, with n elements where that means something.
template <class C>
void try_collectives(const C& comm, std::size_t n, Memory memory) {
    const int p = comm.size(), rank = comm.rank();
    const auto ranks = static_cast<std::size_t>(p);
    const auto sum_at = [&](std::size_t i) {
        double sum = 0;
        for (int r = 0; r < p; ++r) sum += value(r, i);
        return sum;
    };
    const int root = static_cast<int>(n % ranks);
    {
        Room x{comm, n, memory};
        hvd::allreduce(comm, x.span());
        for (std::size_t i = 0; i < n; ++i) expect(x.span()[i] == sum_at(i), "allreduce");
    }
    {
        Room x{comm, n, memory};
        hvd::broadcast(comm, x.span(), root);
        for (std::size_t i = 0; i < n; ++i) expect(x.span()[i] == value(root, i), "broadcast");
    }
    {
        Room x{comm, n, memory};
        hvd::reduce(comm, x.span(), root);
        for (std::size_t i = 0; rank == root && i < n; ++i) expect(x.span()[i] == sum_at(i), "reduce");
    }
    {
        Room x{comm, n, memory};
        std::vector<double> out;
        hvd::reduce_scatter(comm, x.span(), out);
        std::size_t first = 0;
        for (int r = 0; r < rank; ++r) first += n / ranks + (static_cast<std::size_t>(r) < n % ranks ? 1 : 0);
        expect(out.size() == n / ranks + (static_cast<std::size_t>(rank) < n % ranks ? 1 : 0),
               "reduce_scatter: length");
        for (std::size_t i = 0; i < out.size(); ++i) expect(out[i] == sum_at(first + i), "reduce_scatter");
        for (std::size_t i = 0; i < n; ++i) expect(x.span()[i] == value(rank, i), "reduce_scatter: input");
    }
    // Uneven: rank r brings n / (r + 1) rows, rank 1 none.
    const auto rows_of = [&](int r) { return r == 1 ? 0 : n / static_cast<std::size_t>(r + 1); };
    {
        Room x{comm, rows_of(rank), memory};
        std::vector<double> all, at_root;
        hvd::allgather(comm, x.span(), all);
        hvd::gather(comm, x.span(), at_root, root);
        std::size_t at = 0;
        for (int r = 0; r < p; ++r)
            for (std::size_t i = 0; i < rows_of(r); ++i, ++at) {
                expect(all[at] == value(r, i), "allgather");
                if (rank == root) expect(at_root[at] == value(r, i), "gather");
            }
        expect(all.size() == at, "allgather: length");
    }
    {
        std::vector<std::size_t> counts(ranks);
        for (int r = 0; r < p; ++r) counts[static_cast<std::size_t>(r)] = rows_of((r + rank) % p);
        const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        Room x{comm, total, memory};
        std::vector<double> out;
        const auto received = hvd::alltoall(comm, x.span(), counts, out);
        std::size_t at = 0;
        for (int r = 0; r < p; ++r) {
            std::size_t first = 0;
            for (int q = 0; q < rank; ++q) first += rows_of((q + r) % p);
            expect(received[static_cast<std::size_t>(r)] == rows_of((rank + r) % p), "alltoall: counts");
            for (std::size_t i = 0; i < received[static_cast<std::size_t>(r)]; ++i, ++at)
                expect(out[at] == value(r, first + i), "alltoall");
        }
    }
    {
        std::vector<std::size_t> counts(ranks);
        for (int r = 0; r < p; ++r) counts[static_cast<std::size_t>(r)] = rows_of(r);
        Room x{comm, std::accumulate(counts.begin(), counts.end(), std::size_t{0}), memory};
        std::vector<double> out;
        hvd::scatter(comm, x.span(), counts, out, root);
        const std::size_t first = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
        expect(out.size() == rows_of(rank), "scatter: length");
        for (std::size_t i = 0; i < out.size(); ++i) expect(out[i] == value(root, first + i), "scatter");
    }
}

}  // namespace

TEST_CASE("direct through slots") {
    const hvd::testing::AlgorithmSuiteOptions lengths{.lengths = {0, 1, 2, 3, 63, 4913, 100003, 700001}};
    sweep([&](auto& world) { check_algorithm<Few>(apart(world, hvd::Direct{}), Tried::with(hvd::Direct{}), lengths); },
          {1, 2, 3, 4, 5, 6, 7, 8, 9, 16});
}

TEST_CASE("direct through tiny slots") {
    const hvd::testing::AlgorithmSuiteOptions lengths{.lengths = {0, 1, 65, 4096, 30011}, .type_lengths = {1, 1000}};
    sweep([&](auto& world) { check_algorithm<Few>(apart(world, tiny), Tried::with(tiny), lengths); },
          {2, 3, 4, 7, 9, 16});
}

TEST_CASE("direct through slots inside nodes, even and uneven") {
    const hvd::testing::AlgorithmSuiteOptions lengths{.lengths = {0, 1, 5, 65, 4913, 30011}, .type_lengths = {1, 1000}};
    for (int per_node : {2, 3})
        sweep(
            [&](auto& world) {
                check_algorithm<Few>(apart(world, hvd::Ring{}), Tried::with(DirectRing{}), lengths);
                check_algorithm<Few>(apart(world, hvd::Ring{}), Tried::with(DirectRing{.intra = tiny}), lengths);
            },
            {2, 3, 4, 5, 7, 8}, per_node);
}

TEST_CASE("collectives, with pauses in every phase") {
    sweep(
        [](auto& world) {
            const auto comm = apart(world, hvd::Direct{}), small = apart(world, tiny);
            for (Memory memory : {Memory::Private, Memory::Shared, Memory::Mixed}) {
                for (std::size_t n : {0u, 1u, 7u, 1000u, 200003u}) try_collectives(comm, n, memory);
                comm.algorithm_state().pause = small.algorithm_state().pause = rest_at_random;
                for (std::size_t n : {1u, 2500u, 20011u}) try_collectives(small, n, memory);
                for (std::size_t n : {13u, 70001u}) try_collectives(comm, n, memory);
                comm.algorithm_state().pause = small.algorithm_state().pause = nullptr;
            }
            try_collectives(apart(world, hvd::Auto{}, {.shared_memory = false}), 1000, Memory::Private);
        },
        {1, 2, 3, 4, 7});
}

TEST_CASE("collectives between threads that read each other's memory") {
    sweep(
        [](auto& world) {
            if (world.size() > 1) world.algorithm_state().inside->pause = rest_at_random;
            for (std::size_t n : {0u, 1u, 1000u, 200003u}) try_collectives(world, n, Memory::Mixed);
        },
        {1, 2, 3, 5});
}

TEST_CASE("several at once") {
    sweep(
        [](auto& world) {
            const auto comm = apart(world, tiny);
            comm.algorithm_state().pause = rest_at_random;
            for (int round = 0; round < 10; ++round) {
                std::vector<std::vector<int>> x(8), gathered(8);
                std::vector<hvd::Request> requests;
                for (std::size_t i = 0; i < x.size(); ++i) {
                    x[i].assign(3000 * i + 1, comm.rank() + 1);
                    if (i % 3 == 0) requests.push_back(hvd::allreduce_async(comm, x[i]));
                    else if (i % 3 == 1) requests.push_back(hvd::broadcast_async(comm, x[i], 0));
                    else requests.push_back(hvd::allgather_async(comm, x[i], gathered[i]));
                }
                for (std::size_t i = requests.size(); i-- > 0;) requests[i].wait();
                const int p = comm.size();
                for (std::size_t i = 0; i < x.size(); ++i) {
                    if (i % 3 == 0) expect(x[i].back() == p * (p + 1) / 2, "allreduce");
                    else if (i % 3 == 1) expect(x[i].back() == 1, "broadcast");
                    else
                        expect(
                            gathered[i].size() == x[i].size() * static_cast<std::size_t>(p) && gathered[i].back() == p,
                            "allgather");
                }
            }
        },
        {2, 3, 4});
}

TEST_CASE("a great many short ones in a row") {
    sweep(
        [](auto& world) {
            const auto comm = apart(world, hvd::Direct{}, {.checks = false});
            const auto direct = world.with(hvd::Direct{});
            float x[4] = {};
            const auto began = hvd::detail::Clock::now();
            for (int i = 0; i < small_operations / 2; ++i) {
                for (const bool in_place : {false, true}) {
                    x[i % 4] = static_cast<float>(i % 100);
                    if (in_place) hvd::allreduce(direct, x);
                    else hvd::allreduce(comm, x);
                    if (x[i % 4] != static_cast<float>(i % 100 * comm.size())) throw hvd::Error{"a wrong sum"};
                }
                if (i % 1000 != 0) continue;
                // On a machine that has much else to do, fewer must do.
                int is_late = hvd::detail::Clock::now() - began > std::chrono::seconds{15} ? 1 : 0;
                hvd::broadcast(comm, std::span{&is_late, 1}, 0);
                if (is_late != 0) return;
            }
        },
        {2});
}

TEST_CASE("a rank that throws in the middle leaves nobody stuck") {
    for (int p : {2, 4})
        for (int failing : {0, 1}) {
            CHECK(hvd::launch<hvd::Local>(p, [&](auto& world) {
                      const auto comm = apart(world, hvd::Direct{});
                      std::vector<float> x(300000, 1);
                      for (int i = 0;; ++i) {
                          if (i == 3 && comm.rank() == failing) throw std::runtime_error("on purpose");
                          hvd::allreduce(comm, x);
                          hvd::broadcast(comm, x, 0);
                      }
                  }) != 0);
        }
}

TEST_CASE("a process that was stopped in the middle of a block is not waited for") {
    CHECK(hvd::launch<hvd::Local>(2, [](auto& world) {
              const auto comm = apart(world, hvd::Direct{});
              auto& state = *hvd::detail::direct_state_of(comm.algorithm_state());
              if (comm.rank() == 1) state.counters(1).busy.value = 7;
              hvd::barrier(comm);
              if (comm.rank() == 0) state.withdraw(7);
              hvd::barrier(comm);
          }) == 0);
}
