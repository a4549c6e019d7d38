// One step's gradients, ready in another order on every rank and in every step: the engine, with gradients packed and
// bound, and the blocking calls of hvd beside MPI_Allreduce of the same MPI, in the same run.
//   mpiexec -n 2 gradients [--csv FILE] ...
#include <hvd/hvd.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>

#include "resnet50.hpp"
#include "tensor.hpp"
#include "timing.hpp"

namespace {

struct Settings {
    int rounds = 30;
    bool background = true;
    std::string csv, only;
};

/// What one contender works on, how the plan of its engine is seen, and by what its results are divided.
struct Details {
    std::vector<std::span<float>> tensors;
    std::function<hvd::PlanInfo()> plan{};
    int divisor = 1;
};

/// A model of gradients alone, and an optimizer that does nothing with them.
struct Model {
    std::vector<bench::Tensor> tensors{};
    auto& parameters() { return tensors; }
    auto& gradients() { return tensors; }
};
struct Nothing {
    void step(Model&) {}
};

/// The orders in which gradients become ready.
class Orders {
public:
    Orders(std::size_t count, int rank) {
        std::mt19937 random{static_cast<unsigned>(rank) + 1};
        for (auto& order : orders_) {
            order.resize(count);
            std::iota(order.begin(), order.end(), std::size_t{0});
            std::shuffle(order.begin(), order.end(), random);
        }
    }
    const std::vector<std::size_t>& next() { return orders_[step_++ % orders_.size()]; }

private:
    std::array<std::vector<std::size_t>, 16> orders_;
    std::size_t step_ = 0;
};

template <class World>
class Step {
    using Optimizer = hvd::DistributedOptimizer<Model, Nothing, World>;

public:
    Step(World& world, const Settings& settings, std::string what, std::vector<std::size_t> sizes, std::ofstream& csv)
        : world_{world},
          settings_{settings},
          what_{std::move(what)},
          csv_{csv},
          orders_{sizes.size(), world.rank()},
          engine_{world, engine_options()} {
        for (std::size_t n : sizes) {
            names_.push_back("gradient " + std::to_string(names_.size()));
            separate_.emplace_back(n);
            elements_ += n;
        }
        flat_.resize(elements_);
        add_mpi();
        add_hvd();
        add_engine();
        add_optimizer("optimizer, packed", false, hvd::Reduction::Sum, sizes);
        add_optimizer("optimizer, bound", true, hvd::Reduction::Sum, sizes);
        add_optimizer("optimizer, bound, average", true, hvd::Reduction::Average, sizes);
    }

    void run(const char* malloc_setting, int calls) {
        if (what_.find(settings_.only) == what_.npos) return;
        for (std::size_t c = 0; c < contenders_.size(); ++c) {
            check(c);
            contenders_[c].samples.clear();
        }
        bench::take_turns(contenders_, settings_.rounds, calls, [&] { hvd::barrier(world_); });
        if (world_.rank() == 0) print(malloc_setting);
        for (std::size_t c = 0; c < contenders_.size(); ++c)
            if (details_[c].plan && details_[c].plan().control_messages != 0)
                throw std::runtime_error(contenders_[c].name + " sent control messages in a steady step");
    }

private:
    hvd::EngineOptions engine_options() const {
        hvd::EngineOptions options;
        if (!settings_.background) options.background = false;
        return options;
    }

    void add(std::string name, std::function<void()> run, Details details) {
        contenders_.push_back({std::move(name), std::move(run)});
        details_.push_back(std::move(details));
    }

    std::vector<std::span<float>> separate() {
        std::vector<std::span<float>> spans;
        for (bench::Tensor& t : separate_) spans.push_back(t.elements());
        return spans;
    }

    void add_mpi() {
        add("MPI_Allreduce per tensor",
            [this] {
                for (bench::Tensor& t : separate_) mpi_allreduce(t.elements());
            },
            {separate()});
        add("MPI_Allreduce of all", [this] { mpi_allreduce(flat_); }, {{flat_}});
    }

    static void mpi_allreduce(std::span<float> x) {
        MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }

    void add_hvd() {
        add("hvd::allreduce per tensor",
            [this] {
                for (bench::Tensor& t : separate_) hvd::allreduce(world_, t);
            },
            {separate()});
        add("hvd::allreduce of the list", [this] { hvd::allreduce(world_, separate_); }, {separate()});
    }

    void add_engine() {
        add("engine, packed",
            [this] {
                for (std::size_t i : orders_.next()) requests_.push_back(engine_.allreduce(names_[i], separate_[i]));
                engine_.synchronize();
                requests_.clear();
            },
            {separate(), [this] { return engine_.plan(); }});
    }

    void add_optimizer(std::string name, bool bound, hvd::Reduction op, const std::vector<std::size_t>& sizes) {
        Model& model = *models_.emplace_back(std::make_unique<Model>());
        for (std::size_t n : sizes) model.tensors.emplace_back(n);
        optimizers_.push_back(std::make_unique<Optimizer>(world_, model, Nothing{},
                                                          hvd::OptimizerOptions{.op = op, .engine = engine_options()}));
        Optimizer& optimizer = *optimizers_.back();
        if (bound) optimizer.bind_gradients();
        Details details{{}, [&optimizer] { return optimizer.plan(); }};
        for (bench::Tensor& t : model.tensors) details.tensors.push_back(t.elements());
        if (op == hvd::Reduction::Average) details.divisor = world_.size();
        add(
            std::move(name),
            [this, &optimizer] {
                for (std::size_t i : orders_.next()) optimizer.gradient_ready(i);
                optimizer.step();
            },
            std::move(details));
    }

    /// Every contender must give the sum or the average.
    void check(std::size_t c) {
        const int p = world_.size();
        const auto value = [](std::size_t t, std::size_t i) { return static_cast<float>((t + i) % 7); };
        const auto& tensors = details_[c].tensors;
        for (std::size_t t = 0; t < tensors.size(); ++t)
            for (std::size_t i = 0; i < tensors[t].size(); ++i)
                tensors[t][i] = static_cast<float>(world_.rank() + 1) * value(t, i);
        contenders_[c].run();
        const auto sum = static_cast<float>(p * (p + 1) / 2);
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            for (std::size_t i = 0; i < tensors[t].size(); ++i)
                if (tensors[t][i] != sum * value(t, i) / static_cast<float>(details_[c].divisor))
                    throw std::runtime_error(contenders_[c].name + " gives wrong results");
            std::fill(tensors[t].begin(), tensors[t].end(), 0.0f);
        }
    }

    void print(const char* malloc_setting) {
        const double each = contenders_[0].median(), flat = contenders_[1].median();
        std::printf("\n%s, %s, %d processes, malloc: %s\n", what_.c_str(),
                    bench::bytes_text(elements_ * sizeof(float)).c_str(), world_.size(), malloc_setting);
        std::printf("  %-28s %10s %10s %10s %12s %8s %9s %8s\n", "", "min ms", "median ms", "p99 ms", "x per tensor",
                    "x flat", "messages", "buckets");
        for (std::size_t c = 0; c < contenders_.size(); ++c) {
            const bench::Contender& x = contenders_[c];
            std::printf("  %-28s %10.3f %10.3f %10.3f %12.2f %8.2f", x.name.c_str(), x.minimum() * 1e3,
                        x.median() * 1e3, x.p99() * 1e3, each / x.median(), flat / x.median());
            const hvd::PlanInfo plan = details_[c].plan ? details_[c].plan() : hvd::PlanInfo{};
            if (details_[c].plan) std::printf(" %9zu %8zu", plan.control_messages, plan.buckets.size());
            std::printf("\n");
            if (csv_.is_open())
                csv_ << what_ << ',' << world_.size() << ',' << malloc_setting << ",\"" << x.name << "\","
                     << elements_ * sizeof(float) << ',' << x.minimum() << ',' << x.median() << ',' << x.p99() << ','
                     << each / x.median() << ',' << flat / x.median() << ',' << plan.control_messages << '\n';
        }
        std::fflush(stdout);
    }

    World& world_;
    const Settings& settings_;
    std::string what_;
    std::ofstream& csv_;
    Orders orders_;
    std::size_t elements_ = 0;
    std::vector<std::string> names_;
    std::vector<bench::Tensor> separate_;
    std::vector<float> flat_;
    hvd::Engine<World> engine_;
    std::vector<hvd::Request> requests_;
    std::vector<std::unique_ptr<Model>> models_;
    std::vector<std::unique_ptr<Optimizer>> optimizers_;
    std::vector<bench::Contender> contenders_;
    std::vector<Details> details_;
};

}  // namespace

int main(int argc, char** argv) {
    Settings settings;
    CLI::App app{"The gradients of one step: hvd and MPI side by side"};
    app.add_option("--rounds", settings.rounds, "samples per contender")->check(CLI::Range(1, 1 << 30));
    app.add_option("--only", settings.only, "only tables whose title contains this");
    app.add_option("--csv", settings.csv, "write the tables to this file");
    app.add_flag("!--no-background", settings.background, "engines without a thread of their own");
    CLI11_PARSE(app, argc, argv);

    return hvd::launch<hvd::Mpi>(argc, argv, [&](auto& world) {
        std::ofstream csv = bench::csv_file(
            world.rank(), settings.csv,
            "gradients,ranks,malloc,contender,bytes,min_s,median_s,p99_s,ratio_to_mpi_per_tensor,ratio_to_mpi_"
            "flat,control_messages");
        std::vector<std::size_t> sizes;
        for (const bench::Parameter& p : bench::resnet50) sizes.push_back(p.size);
        Step resnet{world, settings, "ResNet-50 (161 tensors)", sizes, csv};
        Step small{world, settings, "1000 tensors of 1 KiB", std::vector<std::size_t>(1000, 256), csv};
        resnet.run("as it comes", 1);
        small.run("as it comes", 5);
        bench::keep_memory();
        resnet.run("keeps memory", 1);
        small.run("keeps memory", 5);
    });
}
