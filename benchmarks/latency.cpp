// One tensor of 4 bytes: through the engine, driven by its caller and with a thread of its own, beside the blocking
// hvd::allreduce and MPI_Allreduce, in the same run.
//   mpiexec -n 2 latency [--csv FILE] ...
#include <hvd/hvd.hpp>

#include <CLI/CLI.hpp>
#include <fstream>
#include <optional>

#include "timing.hpp"

namespace {

struct Settings {
    int rounds = 50, calls = 2000;
    std::string csv;
};

template <class World>
class Latency {
public:
    Latency(World& world, const Settings& settings, std::ofstream& csv)
        : world_{world}, settings_{settings}, csv_{csv} {}

    /// The blocking calls alone; with `background` they and an engine of that kind.
    void run(const char* title, std::optional<bool> background) {
        std::vector<bench::Contender> contenders;
        const auto add = [&](const char* name, std::function<void()> call) {
            contenders.push_back({name, std::move(call), &x_});
        };
        add("MPI_Allreduce", [&] { MPI_Allreduce(MPI_IN_PLACE, &x_, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
        add("hvd::allreduce", [&] { hvd::allreduce(world_, tensor_); });
        std::optional<hvd::Engine<World>> engine;
        const std::string name = "loss";
        if (background) {
            engine.emplace(world_, hvd::EngineOptions{.background = *background});
            add("engine, wait()", [&] { engine->allreduce(name, tensor_).wait(); });
            add("engine, synchronize()", [&] {
                const hvd::Request request = engine->allreduce(name, tensor_);
                engine->synchronize();
            });
            add("engine, ready() in a loop", [&] {
                hvd::Request request = engine->allreduce(name, tensor_);
                while (!request.ready()) {
                }
            });
        }
        for (bench::Contender& c : contenders) check(c);
        bench::take_turns(contenders, settings_.rounds, settings_.calls, [&] { hvd::barrier(world_); });
        if (engine && engine->plan().control_messages != 0)
            throw std::runtime_error("the engine sent control messages in a steady step");
        if (!background) blocking_ = contenders[1].median();
        if (world_.rank() == 0) print(title, contenders);
    }

private:
    void check(bench::Contender& c) {
        for (int i = 0; i < 3; ++i) {
            x_ = static_cast<float>(world_.rank() + i);
            c.run();
            const int p = world_.size();
            if (x_ != static_cast<float>(p * (p - 1) / 2 + p * i))
                throw std::runtime_error(c.name + " gives a wrong sum");
        }
        x_ = 0;
    }

    void print(const char* title, const std::vector<bench::Contender>& contenders) {
        const double mpi = contenders[0].median();
        std::printf("\n4 bytes, %d processes, %s\n", world_.size(), title);
        std::printf("  %-28s %10s %10s %10s %8s %18s\n", "", "min us", "median us", "p99 us", "x MPI",
                    "above blocking, us");
        for (const bench::Contender& c : contenders) {
            const double t = c.median(), above = t - blocking_;
            std::printf("  %-28s %10.3f %10.3f %10.3f %8.2f %18.3f\n", c.name.c_str(), c.minimum() * 1e6, t * 1e6,
                        c.p99() * 1e6, mpi / t, above * 1e6);
            if (csv_.is_open())
                csv_ << world_.size() << ',' << title << ",\"" << c.name << "\"," << c.minimum() << ',' << t << ','
                     << c.p99() << ',' << mpi / t << ',' << above << '\n';
        }
        std::fflush(stdout);
    }

    World& world_;
    const Settings& settings_;
    std::ofstream& csv_;
    float x_ = 0;
    std::span<float> tensor_{&x_, 1};
    double blocking_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Settings settings;
    CLI::App app{"Latency of the engine, beside the blocking calls"};
    app.add_option("--rounds", settings.rounds, "samples per contender")->check(CLI::Range(1, 1 << 30));
    app.add_option("--calls", settings.calls, "calls per sample")->check(CLI::Range(1, 1 << 30));
    app.add_option("--csv", settings.csv, "write the tables to this file");
    CLI11_PARSE(app, argc, argv);

    return hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) {
        std::ofstream csv = bench::csv_file(
            world.rank(), settings.csv, "ranks,engine,contender,min_s,median_s,p99_s,ratio_to_mpi,above_blocking_s");
        Latency latency{world, settings, csv};
        latency.run("no engine", {});
        latency.run("an engine driven by its caller", false);
        latency.run("an engine with a thread", true);
    });
}
