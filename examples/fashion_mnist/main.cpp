// Fashion-MNIST on several workers. The tensor, the model and the optimizer are this program's own and know nothing of
// hvd; every line that has to do with hvd is marked. Try: fashion_mnist --workers 2, and fashion_mnist --help.
#include <hvd/hvd.hpp>  // hvd

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "adapter.hpp"
#include "chosen.hpp"
#include "images.hpp"
#include "model.hpp"
#include "options.hpp"
#include "report.hpp"
#include "sgd.hpp"
#include "start.hpp"

namespace fashion {

struct Data {
    Images train, test;
    explicit Data(const std::string& folder) : train{folder, "train"}, test{folder, "t10k"} {}
};

Perceptron make_model(const Options& options) {
    return Perceptron{{Images::pixels, 256, 128, Images::classes}, options.seed};
}

/// Where this worker runs.
template <class World>
std::string place(const World& world) {
    char host[256] = "?";
    ::gethostname(host, sizeof host - 1);
    return std::string{host} + ", process " + std::to_string(::getpid()) + ", thread " +
           std::to_string(::syscall(SYS_gettid)) + ", node " + std::to_string(world.topology().node());  // hvd
}

/// Samples per second of one worker without others.
double measure_alone(const Options& options, const Images& images) {
    constexpr double warm_up = 0.5, duration = 3;
    struct Alone {  // hvd: a world of one, to share the images with nobody
        int rank() const { return 0; }
        int size() const { return 1; }
    };
    Perceptron model = make_model(options);
    Sgd sgd{options.rate};
    hvd::ShardedDataset data{images, Alone{}, {.batch_size = options.batch, .seed = options.seed}};  // hvd
    std::size_t samples = 0;
    auto begin = Clock::now();
    bool is_warm = false;
    for (std::size_t epoch = 0;; ++epoch) {
        for (auto batch : data.epoch(epoch)) {
            model.backward(batch);
            sgd.step(model);
            samples += batch.size();
            const double seconds = seconds_since(begin);
            if (!is_warm && seconds >= warm_up) {
                is_warm = true;
                samples = 0;
                begin = Clock::now();
            } else if (is_warm && seconds >= duration) {
                return static_cast<double>(samples) / seconds;
            }
        }
    }
}

/// The same on worker 0 of several, while the others sleep and leave it the machine.
template <class World>
double measure_alone(World& world, const Options& options, const Images& images) {
    double speed = 0;
    hvd::barrier(world);      // hvd
    if (world.rank() == 0) {  // hvd
        speed = measure_alone(options, images);
        hvd::barrier(world);  // hvd
    } else {
        hvd::Request measured = hvd::barrier_async(world);                                     // hvd
        while (!measured.ready()) std::this_thread::sleep_for(std::chrono::milliseconds{20});  // hvd
    }
    return speed;
}

/// The share of the test images that is classified rightly. Each worker looks at its part of them.
template <class World>
double accuracy(World& world, Perceptron& model, const Images& images) {
    hvd::ShardedDataset data{images, world, {.batch_size = 500, .last = hvd::Last::Uneven, .shuffle = false}};  // hvd
    std::uint64_t correct[1] = {0};
    for (auto batch : data.epoch(0)) correct[0] += model.count_correct(batch);
    hvd::allreduce(world, correct);  // hvd
    return static_cast<double>(correct[0]) / static_cast<double>(images.size());
}

std::uint64_t hash(const std::vector<Tensor>& tensors) {
    std::uint64_t h = 14695981039346656037u;  // FNV-1a
    for (const Tensor& t : tensors) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(t.row(0));
        for (std::size_t i = 0; i < t.count() * sizeof(float); ++i) h = (h ^ bytes[i]) * 1099511628211u;
    }
    return h;
}

/// The rate over the training, as a share of the whole: it rises during the first tenth, which large batches need, and
/// then falls to almost nothing.
float schedule(float fraction) { return std::min(fraction / 0.1f, (1.01f - fraction) / 0.9f); }

/// The main job, as every worker does it. Returns the exit code.
template <class World>
int train(World& world, const Options& options, const Data& data) {
    const bool is_first = world.rank() == 0;                                             // hvd
    const auto workers = static_cast<std::size_t>(world.size());                         // hvd
    const std::vector<std::string> places = hvd::allgather_object(world, place(world));  // hvd
    if (is_first) {
        std::printf("%zu training images, %zu test images; %zu workers (%s, %s), %zu images each per step\n",
                    data.train.size(), data.test.size(), workers, options.transport.c_str(), options.algorithm.c_str(),
                    options.batch);
        for (std::size_t r = 0; r < workers; ++r) std::printf("worker %zu: %s\n", r, places[r].c_str());
        std::fflush(stdout);
    }
    const double alone = measure_alone(world, options, data.train);
    if (is_first)
        std::printf("one worker alone: %.0f samples/s (measured before training, while the others sleep)\n", alone);

    Perceptron model = make_model(options);
    hvd::ShardedDataset shard{data.train, world, {.batch_size = options.batch, .seed = options.seed}};  // hvd
    const float rate = hvd::scale_rate(options.rate, world, hvd::RateRule::SquareRoot);                 // hvd
    const auto reducing = world.with(Chosen::named(options.algorithm));                                 // hvd
    hvd::DistributedOptimizer optimizer{reducing, model, Sgd{rate}};                                    // hvd
    hvd::broadcast_parameters(world, model);                                                            // hvd

    Report report{is_first, is_first && options.curve != "none" ? options.curve : "", options.epochs,
                  shard.steps_per_epoch(), workers};
    double tested = 0;
    for (std::size_t epoch = 0; epoch < options.epochs; ++epoch) {
        report.begin_epoch(epoch);
        for (auto batch : shard.epoch(epoch)) {
            optimizer.inner().rate = rate * schedule(report.fraction());
            const double loss = model.backward(batch);
            optimizer.step();  // hvd: the mean of all workers' gradients, then Sgd::step
            report.step(loss, batch.size(), optimizer.exposed_time().count());                        // hvd
            if (report.is_look_due()) report.look(hvd::average_metric(world, report.recent_loss()));  // hvd
        }
        report.end_training_of_epoch();
        tested = accuracy(world, model, data.test);
        report.end_epoch(tested);
    }

    const std::uint64_t own_hash[1] = {hash(model.parameters())};
    bool is_same = true;
    for (std::uint64_t h : hvd::allgather(world, own_hash)) is_same = is_same && h == own_hash[0];  // hvd
    report.end(alone);
    if (is_first) {
        std::printf("weights: %s on all workers (hash %016llx)\n", is_same ? "bitwise equal" : "NOT EQUAL",
                    static_cast<unsigned long long>(own_hash[0]));
        if (tested < options.require)
            std::printf("FAILED: the test accuracy is below the %.2f %% required\n", options.require * 100);
    }
    return is_same && tested >= options.require ? 0 : 1;
}

/// Training, unless some worker has no data: then worker 0 says so, and all end in peace.
template <class World>
int run(World& world, const Options& options, const std::optional<Data>& data, const std::string& error) {
    std::string own = error;
    if (own.empty() && options.workers != 0 && options.workers != world.size())  // hvd
        own = "fashion_mnist: --workers is " + std::to_string(options.workers) + ", but the launcher started " +
              std::to_string(world.size()) + "; leave it out";        // hvd
    for (const std::string& e : hvd::allgather_object(world, own)) {  // hvd
        if (e.empty()) continue;
        if (world.rank() == 0) std::fprintf(stderr, "%s\n", e.c_str());  // hvd
        return 1;
    }
    return train(world, options, *data);
}

}  // namespace fashion

int main(int argc, char** argv) {
    using namespace fashion;
    Options options;
    CLI::App app{"Trains a perceptron on Fashion-MNIST with several workers.", "fashion_mnist"};
    options.add_to(app);
    CLI11_PARSE(app, argc, argv);

    if (options.transport == "local" && is_under_launcher()) {
        std::fprintf(stderr, "fashion_mnist: --transport local starts threads itself; run it without mpiexec\n");
        return 1;
    }
    const bool is_under_mpi = is_under_launcher();
    std::optional<Data> data;
    std::string error;
    try {
        data.emplace(options.data);
    } catch (const std::exception& e) {
        error = std::string{e.what()} + " (the data is Debian's package dataset-fashion-mnist, or --data DIR)";
    }
    if (!is_under_mpi) {
        if (error.empty() && options.workers == 0) options.workers = 2;
        if (error.empty() && options.transport == "mpi")
            error = "fashion_mnist: " + start_processes(options.workers, argv);
        if (!error.empty()) {
            std::fprintf(stderr, "%s\n", error.c_str());
            return 1;
        }
    }

    int code = 0;
    const auto body = [&](auto& world) {  // hvd
        const int own = run(world, options, data, error);
        if (world.rank() == 0) code = own;  // hvd
    };
    int failed = 0;
    if (is_under_mpi) failed = hvd::launch(argc, argv, body);      // hvd
    else failed = hvd::launch<hvd::Local>(options.workers, body);  // hvd
    return failed != 0 ? failed : code;
}
