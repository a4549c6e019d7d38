// The other collectives of hvd beside the calls of MPI, in the same run: mpiexec -n 2 collectives [--csv FILE] ...
#include <hvd/hvd.hpp>

#include <CLI/CLI.hpp>
#include <fstream>
#include <numeric>

#include "timing.hpp"

namespace {

struct Settings {
    std::vector<std::size_t> sizes{1048576, 4194304, 16777216};
    int rounds = 30;
    std::string csv;
};

using World = hvd::Communicator<hvd::Mpi>;
using Vector = std::vector<float>;

/// One collective, done by MPI and by hvd, on memory of each rank and on memory that the ranks share.
struct Row {
    const char* name;
    std::function<void()> mpi, hvd, shared;
    std::span<float> mpi_result, hvd_result, shared_result;
};

/// All must give the same, and not nothing.
void check(const World& world, const Row& row) {
    for (auto result : {row.mpi_result, row.hvd_result, row.shared_result})
        std::fill(result.begin(), result.end(), -1.0f);
    row.mpi();
    row.hvd();
    row.shared();
    for (auto result : {row.hvd_result, row.shared_result})
        if (!std::equal(result.begin(), result.end(), row.mpi_result.begin(), row.mpi_result.end()))
            throw std::runtime_error(std::string{row.name} + " differs from MPI's result on rank " +
                                     std::to_string(world.rank()));
}

/// `bytes` is what a rank ends with (broadcast, allgather, gather, alltoall) or begins with (the others).
void run(const World& world, std::size_t bytes, const Settings& settings, std::ofstream& csv) {
    const auto p = static_cast<std::size_t>(world.size());
    const std::size_t part = bytes / sizeof(float) / p, n = part * p;
    const int count = static_cast<int>(part), root = 0;
    const bool is_root = world.rank() == root;
    Vector whole(n), one(part), many(n), own_part(part), mpi_part(part), mpi_many(n);
    std::iota(whole.begin(), whole.end(), static_cast<float>(world.rank()));
    std::iota(one.begin(), one.end(), static_cast<float>(world.rank()));
    Vector sent = whole, mpi_sent = whole, rooted(is_root ? n : 0), mpi_rooted(is_root ? n : 0), none;
    const std::vector<std::size_t> counts(p, part);

    auto shared_whole = world.allocate_shared<float>(n), shared_many = world.allocate_shared<float>(n);
    auto shared_one = world.allocate_shared<float>(part), shared_part = world.allocate_shared<float>(part);
    auto shared_sent = world.allocate_shared<float>(n), shared_rooted = world.allocate_shared<float>(is_root ? n : 0);
    std::copy(whole.begin(), whole.end(), shared_whole.data());
    std::copy(whole.begin(), whole.end(), shared_sent.data());
    std::copy(one.begin(), one.end(), shared_one.data());
    const auto view = [](auto& x) { return std::span<float>{x.data(), x.size()}; };

    std::vector<Row> rows{
        {"broadcast", [&] { MPI_Bcast(mpi_sent.data(), static_cast<int>(n), MPI_FLOAT, root, MPI_COMM_WORLD); },
         [&] { hvd::broadcast(world, sent, root); }, [&] { hvd::broadcast(world, shared_sent, root); }, mpi_sent, sent,
         view(shared_sent)},
        {"allgather",
         [&] { MPI_Allgather(one.data(), count, MPI_FLOAT, mpi_many.data(), count, MPI_FLOAT, MPI_COMM_WORLD); },
         [&] { hvd::allgather(world, one, many); }, [&] { hvd::allgather(world, shared_one, shared_many); }, mpi_many,
         many, view(shared_many)},
        {"reduce_scatter",
         [&] { MPI_Reduce_scatter_block(whole.data(), mpi_part.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
         [&] { hvd::reduce_scatter(world, whole, own_part); },
         [&] { hvd::reduce_scatter(world, shared_whole, shared_part); }, mpi_part, own_part, view(shared_part)},
        {"alltoall",
         [&] { MPI_Alltoall(whole.data(), count, MPI_FLOAT, mpi_many.data(), count, MPI_FLOAT, MPI_COMM_WORLD); },
         [&] { hvd::alltoall(world, whole, counts, many); },
         [&] { hvd::alltoall(world, shared_whole, counts, shared_many); }, mpi_many, many, view(shared_many)},
        {"gather",
         [&] { MPI_Gather(one.data(), count, MPI_FLOAT, mpi_rooted.data(), count, MPI_FLOAT, root, MPI_COMM_WORLD); },
         [&] { hvd::gather(world, one, rooted, root); }, [&] { hvd::gather(world, shared_one, shared_rooted, root); },
         mpi_rooted, rooted, view(shared_rooted)},
        {"scatter",
         [&] { MPI_Scatter(whole.data(), count, MPI_FLOAT, mpi_part.data(), count, MPI_FLOAT, root, MPI_COMM_WORLD); },
         [&] { hvd::scatter(world, is_root ? whole : none, own_part, root); },
         [&] { hvd::scatter(world, is_root ? view(shared_whole) : std::span<float>{}, shared_part, root); }, mpi_part,
         own_part, view(shared_part)},
    };
    if (is_root)
        std::printf("\n%d ranks, %s\n  %-16s %12s %12s %8s %12s %8s\n", world.size(), bench::bytes_text(bytes).c_str(),
                    "", "MPI us", "hvd us", "x MPI", "shared us", "x MPI");
    for (const Row& row : rows) {
        check(world, row);
        std::vector<bench::Contender> contenders{{"MPI", row.mpi}, {"hvd", row.hvd}, {"hvd, shared", row.shared}};
        bench::take_turns(contenders, settings.rounds, 1, [&] { hvd::barrier(world); });
        const double mpi = contenders[0].median(), own = contenders[1].median(), shared = contenders[2].median();
        if (!is_root) continue;
        std::printf("  %-16s %12.1f %12.1f %8.2f %12.1f %8.2f\n", row.name, mpi * 1e6, own * 1e6, mpi / own,
                    shared * 1e6, mpi / shared);
        std::fflush(stdout);
        if (csv.is_open())
            csv << row.name << ',' << world.size() << ',' << bytes << ',' << mpi << ',' << own << ',' << mpi / own
                << ',' << shared << ',' << mpi / shared << '\n';
    }
}

}  // namespace

int main(int argc, char** argv) {
    Settings settings;
    CLI::App app{"Collectives: hvd and MPI side by side"};
    app.add_option("--sizes", settings.sizes, "bytes, separated by commas")
        ->delimiter(',')
        ->check(CLI::Range(std::size_t{sizeof(float)}, std::size_t{1} << 40));
    app.add_option("--rounds", settings.rounds, "samples per contender")->check(CLI::Range(1, 1 << 30));
    app.add_option("--csv", settings.csv, "write the table to this file");
    CLI11_PARSE(app, argc, argv);
    return hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) {
        std::ofstream csv = bench::csv_file(world.rank(), settings.csv,
                                            "collective,ranks,bytes,mpi_s,hvd_s,ratio,shared_s,shared_ratio");
        for (std::size_t bytes : settings.sizes) run(world, bytes, settings, csv);
    });
}
