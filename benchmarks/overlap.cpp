// How much of the communication of a training step is hidden behind backward: steps of a perceptron of 10 million
// parameters without communication, with communication after backward, and with gradients announced as they are ready.
//   mpiexec -n 2 overlap [--csv FILE] ...
#include <hvd/hvd.hpp>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <random>

#include "perceptron.hpp"
#include "timing.hpp"

namespace {

struct Settings {
    int rounds = 30;
    std::size_t batch = 64;
    std::optional<std::size_t> fusion_threshold;
    std::string csv;
};

using bench::Descent;
using bench::Perceptron;

/// One way to train. Per step, all in seconds: the whole step on the slowest rank, the forward and backward pass there, and
/// the wait for communication on the rank that waits least.
struct Way {
    std::string name;
    std::function<void()> step;
    std::function<double()> exposed{};
    std::vector<double> steps{}, waits{};
};

double median(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
}

template <class World>
class Overlap {
    using Optimizer = hvd::DistributedOptimizer<Perceptron, Descent, World>;
    static constexpr std::size_t first = 784, last = 10;
    static inline const std::vector<std::size_t> widths{first, 1024, 2048, 2048, 1024, 1024, last};

public:
    Overlap(World& world, const Settings& settings)
        : world_{world}, settings_{settings}, x_(settings.batch * first), targets_(settings.batch * last) {
        std::mt19937 random{static_cast<unsigned>(world.rank())};
        std::uniform_real_distribution<float> value{0, 1};
        for (float& x : x_) x = value(random);
        for (float& t : targets_) t = value(random);
        hvd::OptimizerOptions options;
        options.engine.fusion_threshold = settings.fusion_threshold;
        for (std::size_t i = 0; i < 2; ++i) {
            optimizers_[i] = std::make_unique<Optimizer>(world_, models_[i], descent_, options);
            hvd::broadcast_parameters(world_, models_[i]);
        }
        optimizers_[1]->bind_gradients();
        ways_.push_back({"no communication", [this] { without(models_[0]); }});
        for (std::size_t i = 0; i < 2; ++i) {
            const std::string kind = i == 0 ? ", packed" : ", bound";
            const auto exposed = [this, i] { return optimizers_[i]->exposed_time().count(); };
            ways_.push_back({"after backward" + kind, [this, i] { serial(i); }, exposed});
            ways_.push_back({"overlapped" + kind, [this, i] { overlapped(i); }, exposed});
        }
    }

    void run(std::ofstream& csv) {
        check();
        for (int round = -2; round < settings_.rounds; ++round) {
            for (Way& way : ways_) {
                hvd::barrier(world_);
                double step = bench::seconds_of(way.step, 1);
                double wait = way.exposed ? way.exposed() : 0;
                hvd::allreduce(world_, std::span<double>{&step, 1}, hvd::max);
                hvd::allreduce(world_, std::span<double>{&wait, 1}, hvd::min);
                if (round < 0) continue;
                way.steps.push_back(step);
                way.waits.push_back(wait);
            }
        }
        if (world_.rank() == 0) print(csv);
        for (auto& optimizer : optimizers_)
            if (optimizer->plan().control_messages != 0)
                throw std::runtime_error("the engine sent control messages in a steady step");
    }

private:
    void backward(Perceptron& model, const std::function<void(std::size_t)>& ready) {
        model.forward(x_);
        const auto began = std::chrono::steady_clock::now();
        model.backward(targets_, ready);
        backward_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }
    void without(Perceptron& model) {
        backward(model, [](std::size_t) {});
        backwards_.push_back(backward_);
        descent_.step(model);
    }
    void serial(std::size_t i) {
        backward(models_[i], [](std::size_t) {});
        optimizers_[i]->step();
    }
    void overlapped(std::size_t i) {
        backward(models_[i], [&](std::size_t gradient) { optimizers_[i]->gradient_ready(gradient); });
        optimizers_[i]->step();
    }

    /// All ways of communicating must train alike, and to the same parameters on all ranks.
    void check() {
        for (int step = 0; step < 3; ++step) {
            serial(0);
            overlapped(1);
        }
        for (std::size_t t = 0; t < models_[0].parameters().size(); ++t) {
            const auto a = models_[0].parameters()[t].elements(), b = models_[1].parameters()[t].elements();
            if (!std::equal(a.begin(), a.end(), b.begin())) throw std::runtime_error("overlap changes the result");
            std::vector<float> least(a.begin(), a.end()), most = least;
            hvd::allreduce(world_, least, hvd::min);
            hvd::allreduce(world_, most, hvd::max);
            if (least != most) throw std::runtime_error("the ranks have different parameters");
        }
    }

    void print(std::ofstream& csv) {
        const double bare = median(ways_[0].steps);
        std::printf("\nperceptron of %zu parameters, batch %zu, %d processes; backward %.1f ms; %zu buckets\n",
                    models_[0].count(), settings_.batch, world_.size(), median(backwards_) * 1e3,
                    optimizers_[0]->plan().buckets.size());
        std::printf("  %-24s %10s %20s %12s %10s\n", "", "step ms", "above no comm. ms", "exposed ms", "of serial");
        for (std::size_t i = 0; i < ways_.size(); ++i) {
            const Way& way = ways_[i];
            const double step = median(way.steps), wait = median(way.waits);
            const double serial = i == 0 ? 0 : median(ways_[i - 1 + i % 2].waits);
            std::printf("  %-24s %10.2f %20.2f %12.3f", way.name.c_str(), step * 1e3, (step - bare) * 1e3, wait * 1e3);
            if (i > 0) std::printf(" %8.1f %%", wait / serial * 100);
            std::printf("\n");
            if (csv.is_open())
                csv << world_.size() << ",\"" << way.name << "\"," << step << ',' << step - bare << ',' << wait << ','
                    << (i > 0 ? wait / serial : 0) << '\n';
        }
        std::fflush(stdout);
    }

    World& world_;
    const Settings& settings_;
    std::vector<float> x_, targets_;
    Descent descent_{1e-4f};
    std::array<Perceptron, 2> models_{Perceptron{widths, settings_.batch}, Perceptron{widths, settings_.batch}};
    std::array<std::unique_ptr<Optimizer>, 2> optimizers_;
    std::vector<Way> ways_;
    std::vector<double> backwards_;
    double backward_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Settings settings;
    CLI::App app{"Communication hidden behind backward"};
    app.add_option("--rounds", settings.rounds, "samples per way")->check(CLI::Range(1, 1 << 30));
    app.add_option("--batch", settings.batch, "samples per process and step")->check(CLI::Range(1, 1 << 30));
    app.add_option("--fusion-threshold", settings.fusion_threshold, "bytes; as EngineOptions");
    app.add_option("--csv", settings.csv, "write the table to this file");
    CLI11_PARSE(app, argc, argv);

    return hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) {
        std::ofstream csv = bench::csv_file(world.rank(), settings.csv,
                                            "ranks,way,step_s,above_no_communication_s,exposed_s,exposed_of_serial");
        Overlap{world, settings}.run(csv);
    });
}
