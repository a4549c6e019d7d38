// Every allreduce of hvd beside MPI_Allreduce of the same MPI, Gloo's if asked for, and a plain copy of the buffer, in the
// same run.
//   mpiexec -n 2 allreduce [--csv FILE] ...      processes
//   allreduce --threads 2 ...                    threads (without MPI_Allreduce)
#include <hvd/hvd.hpp>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <iostream>

#include "gloo_peer.hpp"
#include "timing.hpp"

namespace {

struct Settings {
    std::vector<std::size_t> sizes{4, 64, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864};
    int rounds = 40;
    double budget = 20;  // seconds per size
    std::string csv;
    int threads = 0;
    bool checks = true;
    int ranks_per_node = 0;
    bool keep_memory = false;
    bool gloo = false;
    std::vector<std::string> only;
};

class Report {
public:
    explicit Report(const std::string& csv)
        : file_{bench::csv_file(0, csv,
                                "transport,ranks,contender,bytes,min_s,median_s,p99_s,algorithm_GBps,bus_GBps,"
                                "ratio_to_mpi,ratio_to_copy")} {}

    /// Bandwidths as nccl-tests define them: bytes / time, and times 2 (p - 1) / p.
    void print(const char* transport, int ranks, std::size_t bytes, std::vector<bench::Contender>& contenders) {
        const double copy = contenders[0].median();
        const double mpi = contenders.size() > 1 && contenders[1].name == "MPI_Allreduce" ? contenders[1].median() : 0;
        std::printf("\n%s, %d ranks, %s\n", transport, ranks, bench::bytes_text(bytes).c_str());
        std::printf("  %-24s %12s %12s %12s %9s %9s %8s %8s\n", "", "min us", "median us", "p99 us", "alg GB/s",
                    "bus GB/s", "x MPI", "x copy");
        for (const bench::Contender& c : contenders) {
            const double t = c.median(), algorithm = static_cast<double>(bytes) / t / 1e9;
            const double bus = algorithm * 2 * (ranks - 1) / ranks;
            std::printf("  %-24s %12.2f %12.2f %12.2f %9.2f %9.2f %8.2f %8.2f\n", c.name.c_str(), c.minimum() * 1e6,
                        t * 1e6, c.p99() * 1e6, algorithm, bus, mpi / t, copy / t);
            if (file_.is_open())
                file_ << transport << ',' << ranks << ",\"" << c.name << "\"," << bytes << ',' << c.minimum() << ','
                      << t << ',' << c.p99() << ',' << algorithm << ',' << bus << ',' << mpi / t << ',' << copy / t
                      << '\n';
        }
        std::fflush(stdout);
    }

private:
    std::ofstream file_;
};

template <class World>
class Benchmark {
public:
    Benchmark(World& world, const Settings& settings, Report* report)
        : world_{world}, settings_{settings}, report_{report} {}

    template <class PeerOf>
    void run(const char* transport, PeerOf add_peers) {
        auto ring = world_.with(hvd::Ring{});
        auto tree = world_.with(hvd::Tree{});
        auto halving = world_.with(hvd::HalvingDoubling{});
        auto native = world_.with(hvd::Native{});
        const bool one_node = world_.topology().nodes() == 1;
        std::optional<decltype(world_.with(hvd::Direct{}))> direct;
        std::optional<decltype(world_.with(TwoLevel{}))> two_level;
        if (one_node) direct.emplace(world_.with(hvd::Direct{}));
        else two_level.emplace(world_.with(TwoLevel{}));
        if (report_ != nullptr) std::printf("%s", world_.algorithm().explain().c_str());
        for (std::size_t bytes : settings_.sizes) {
            std::vector<float> buffer(bytes / sizeof(float)), other(buffer.size());
            std::vector<bench::Contender> contenders;
            contenders.push_back({"plain copy",
                                  [&] { std::memcpy(other.data(), buffer.data(), buffer.size() * sizeof(float)); },
                                  other.data()});
            add_peers(contenders, buffer);
            add(contenders, "hvd Auto", world_, buffer);
            add(contenders, "hvd Ring", ring, buffer);
            add(contenders, "hvd HalvingDoubling", halving, buffer);
            add(contenders, "hvd Tree", tree, buffer);
            auto shared = world_.template allocate_shared<float>(buffer.size());
            std::vector<hvd::float16> halves(buffer.size());
            std::vector<hvd::bfloat16> brain_halves(buffer.size());
            if (two_level) add(contenders, "hvd Hierarchical", *two_level, buffer);
            if (direct) add(contenders, "hvd Direct", *direct, buffer);
            if (direct && std::string_view{transport} == "mpi") add(contenders, "hvd Direct, shared", *direct, shared);
            if (std::string_view{transport} == "mpi") add(contenders, "hvd Native", native, buffer);
            check(contenders, buffer);
            add(contenders, "hvd Auto, float16", world_, halves);  // as many elements, half the bytes
            add(contenders, "hvd Auto, bfloat16", world_, brain_halves);
            bench::take_turns(contenders, settings_.rounds, calls_for(contenders), [&] { hvd::barrier(world_); });
            if (report_ != nullptr) report_->print(transport, world_.size(), bytes, contenders);
        }
    }

private:
    using TwoLevel = hvd::Hierarchical<hvd::Direct, hvd::Ring>;

    template <class C, class Buffer>
    void add(std::vector<bench::Contender>& contenders, const char* name, C& comm, Buffer& buffer) {
        for (const std::string& wanted : settings_.only)
            if (std::string_view{name}.find(wanted) != std::string_view::npos) goto found;
        if (!settings_.only.empty()) return;
    found:
        contenders.push_back({name, [&comm, &buffer] { hvd::allreduce(comm, buffer); }});
        if constexpr (std::is_same_v<hvd::tensor_value_t<Buffer>, float>) contenders.back().data = buffer.data();
    }

    /// Every contender but the copy must give the sum.
    void check(std::vector<bench::Contender>& contenders, std::vector<float>& buffer) {
        const int p = world_.size();
        for (std::size_t c = 1; c < contenders.size(); ++c) {
            float* data = contenders[c].data;
            for (std::size_t i = 0; i < buffer.size(); ++i)
                data[i] = static_cast<float>(world_.rank() + 1) * static_cast<float>(i % 7);
            contenders[c].run();
            for (std::size_t i = 0; i < buffer.size(); ++i)
                if (data[i] != static_cast<float>(p * (p + 1) / 2) * static_cast<float>(i % 7))
                    throw std::runtime_error(contenders[c].name + " gives a wrong sum");
        }
        for (bench::Contender& c : contenders) std::fill(c.data, c.data + buffer.size(), 0.0f);
    }

    /// Enough calls in a sample to be measured, and few enough for the time there is.
    int calls_for(std::vector<bench::Contender>& contenders) {
        double slowest = 0;
        for (bench::Contender& c : contenders) {
            hvd::barrier(world_);
            slowest = std::max(slowest, bench::seconds_of(c.run, 2));
        }
        hvd::broadcast(world_, std::span<double>{&slowest, 1}, 0);
        return std::max(1, static_cast<int>(std::min(1000.0, 2e-3 / slowest)));
    }

    World& world_;
    const Settings& settings_;
    Report* report_;
};

}  // namespace

int main(int argc, char** argv) {
    Settings settings;
    CLI::App app{"Allreduce: hvd, MPI and a plain copy side by side"};
    app.add_option("--sizes", settings.sizes, "bytes, separated by commas")
        ->delimiter(',')
        ->check(CLI::Range(std::size_t{sizeof(float)}, std::size_t{1} << 40));
    app.add_option("--rounds", settings.rounds, "samples per contender")->check(CLI::Range(1, 1 << 30));
    app.add_option("--csv", settings.csv, "write the table to this file");
    app.add_option("--threads", settings.threads, "run as this many threads instead of processes")
        ->check(CLI::Range(0, 4096));
    app.add_option("--only", settings.only, "only contenders of hvd whose name contains this");
    app.add_option("--ranks-per-node", settings.ranks_per_node, "pretend nodes of so many ranks")
        ->check(CLI::Range(0, 4096));
    app.add_flag("--keep-memory", settings.keep_memory, "malloc keeps what is freed, which helps MPI's own call");
    app.add_flag("--gloo", settings.gloo, "also Gloo; its threads slow the others down for short tensors");
    app.add_flag("!--no-checks", settings.checks, "turn the checks of calls off");
    CLI11_PARSE(app, argc, argv);
    if (settings.keep_memory) bench::keep_memory();
    const hvd::LaunchOptions threads{
        .workers = settings.threads, .ranks_per_node = settings.ranks_per_node, .checks = settings.checks};
    if (settings.threads > 0) {
        return hvd::launch<hvd::Local>(threads, [&](auto& world) {
            std::optional<Report> report;
            if (world.rank() == 0) report.emplace(settings.csv);
            Benchmark{world, settings, report ? &*report : nullptr}.run("local", [](auto&, auto&) {});
        });
    }
    return hvd::launch<hvd::Mpi>(
        argc, argv,
        [&](auto& world) {
            std::optional<Report> report;
            if (world.rank() == 0) report.emplace(settings.csv);
            std::optional<bench::GlooPeer> gloo;
            if (settings.gloo) gloo.emplace(world);
            const auto add_peers = [&](auto& contenders, std::vector<float>& buffer) {
                contenders.push_back({"MPI_Allreduce",
                                      [&buffer] {
                                          MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()),
                                                        MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                                      },
                                      buffer.data()});
                if (gloo)
                    contenders.push_back(
                        {"Gloo", [&] { gloo->allreduce(buffer.data(), buffer.size()); }, buffer.data()});
            };
            Benchmark{world, settings, report ? &*report : nullptr}.run("mpi", add_peers);
        },
        {.ranks_per_node = settings.ranks_per_node, .checks = settings.checks});
}
