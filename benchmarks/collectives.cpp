// The other collectives of hvd beside the calls of MPI, in the same run: mpiexec -n 2 collectives [--csv FILE] ...
#include <hvd/hvd.hpp>

#include <CLI/CLI.hpp>
#include <fstream>
#include <numeric>

#include "timing.hpp"

namespace {

struct Settings {
    std::string sizes = "1048576,4194304,16777216";
    int rounds = 30;
    std::string csv;
};

using World = hvd::Communicator<hvd::Mpi>;
using Vector = std::vector<float>;

/// One collective, done by MPI and by hvd.
struct Pair {
    const char* name;
    std::function<void()> mpi, hvd;
    Vector* mpi_result;
    Vector* hvd_result;
};

/// Both must give the same, and not nothing.
void check(const World& world, const Pair& pair) {
    for (Vector* result : {pair.mpi_result, pair.hvd_result}) std::fill(result->begin(), result->end(), -1.0f);
    pair.mpi();
    pair.hvd();
    if (*pair.mpi_result != *pair.hvd_result)
        throw std::runtime_error(std::string{pair.name} + " differs from MPI's result on rank " +
                                 std::to_string(world.rank()));
}

/// `bytes` is what a rank ends with (broadcast, allgather, gather, alltoall) or begins with (the others).
void run(const World& world, std::size_t bytes, const Settings& settings, std::ofstream& csv) {
    const auto p = static_cast<std::size_t>(world.size());
    const std::size_t part = bytes / sizeof(float) / p, n = part * p;
    const int count = static_cast<int>(part), root = 0;
    const bool is_root = world.rank() == root;
    Vector whole(n), one(part), many(n), mpi_one(part), mpi_many(n);
    std::iota(whole.begin(), whole.end(), static_cast<float>(world.rank()));
    std::iota(one.begin(), one.end(), static_cast<float>(world.rank()));
    Vector sent = whole, mpi_sent = whole, rooted(is_root ? n : 0), mpi_rooted(is_root ? n : 0), none;
    const std::vector<std::size_t> counts(p, part);
    const auto data_of = [](Vector& v) { return v.data(); };

    std::vector<Pair> pairs{
        {"broadcast", [&] { MPI_Bcast(data_of(mpi_sent), static_cast<int>(n), MPI_FLOAT, root, MPI_COMM_WORLD); },
         [&] { hvd::broadcast(world, sent, root); }, &mpi_sent, &sent},
        {"allgather",
         [&] { MPI_Allgather(one.data(), count, MPI_FLOAT, mpi_many.data(), count, MPI_FLOAT, MPI_COMM_WORLD); },
         [&] { hvd::allgather(world, one, many); }, &mpi_many, &many},
        {"reduce_scatter",
         [&] { MPI_Reduce_scatter_block(whole.data(), mpi_one.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
         [&] { hvd::reduce_scatter(world, whole, one); }, &mpi_one, &one},
        {"alltoall",
         [&] { MPI_Alltoall(whole.data(), count, MPI_FLOAT, mpi_many.data(), count, MPI_FLOAT, MPI_COMM_WORLD); },
         [&] { hvd::alltoall(world, whole, counts, many); }, &mpi_many, &many},
        {"gather",
         [&] { MPI_Gather(one.data(), count, MPI_FLOAT, mpi_rooted.data(), count, MPI_FLOAT, root, MPI_COMM_WORLD); },
         [&] { hvd::gather(world, one, rooted, root); }, &mpi_rooted, &rooted},
        {"scatter",
         [&] { MPI_Scatter(whole.data(), count, MPI_FLOAT, mpi_one.data(), count, MPI_FLOAT, root, MPI_COMM_WORLD); },
         [&] { hvd::scatter(world, is_root ? whole : none, one, root); }, &mpi_one, &one},
    };
    if (is_root)
        std::printf("\n%d ranks, %s\n  %-16s %12s %12s %8s\n", world.size(), bench::bytes_text(bytes).c_str(), "",
                    "MPI us", "hvd us", "x MPI");
    for (const Pair& pair : pairs) {
        check(world, pair);
        std::vector<bench::Contender> contenders{{"MPI", pair.mpi}, {"hvd", pair.hvd}};
        bench::take_turns(contenders, settings.rounds, 1, [&] { hvd::barrier(world); });
        const double mpi = contenders[0].median(), own = contenders[1].median();
        if (!is_root) continue;
        std::printf("  %-16s %12.1f %12.1f %8.2f\n", pair.name, mpi * 1e6, own * 1e6, mpi / own);
        std::fflush(stdout);
        if (csv.is_open())
            csv << pair.name << ',' << world.size() << ',' << bytes << ',' << mpi << ',' << own << ',' << mpi / own
                << '\n';
    }
}

}  // namespace

int main(int argc, char** argv) {
    Settings settings;
    CLI::App app{"Collectives: hvd and MPI side by side"};
    app.add_option("--sizes", settings.sizes, "bytes, separated by commas");
    app.add_option("--rounds", settings.rounds, "samples per contender");
    app.add_option("--csv", settings.csv, "write the table to this file");
    CLI11_PARSE(app, argc, argv);
    return hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) {
        std::ofstream csv;
        if (world.rank() == 0 && !settings.csv.empty()) {
            csv.open(settings.csv);
            csv << "collective,ranks,bytes,mpi_s,hvd_s,ratio\n";
        }
        for (std::size_t at = 0; at < settings.sizes.size();) {
            const std::size_t comma = std::min(settings.sizes.find(',', at), settings.sizes.size());
            run(world, std::stoul(settings.sizes.substr(at, comma - at)), settings, csv);
            at = comma + 1;
        }
    });
}
