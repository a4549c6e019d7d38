// Trains on Fashion-MNIST twice: in peace, and with workers that are killed while it trains. The results are equal, bit for
// bit, and the training loop knows nothing of it. Start it without mpiexec: survivor --deaths 5
#include <hvd/hvd.hpp>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fashion_mnist/adapter.hpp"
#include "fashion_mnist/images.hpp"
#include "fashion_mnist/model.hpp"
#include "fashion_mnist/sgd.hpp"

namespace fs = std::filesystem;

// "--workers 4" and the like; every value is a number.
std::map<std::string, long> options_from(int argc, char** argv) {
    std::map<std::string, long> options{
        {"--workers", 4}, {"--epochs", 3}, {"--batch", 256}, {"--deaths", 5}, {"--seed", 1}};
    for (int i = 1; i < argc; i += 2) {
        const auto option = options.find(argv[i]);
        char* end = nullptr;
        if (option != options.end() && i + 1 < argc) option->second = std::strtol(argv[i + 1], &end, 10);
        if (end == nullptr || *end != '\0' || option->second < (option->first == "--deaths" ? 0 : 1)) {
            std::fprintf(stderr, "usage: survivor [--workers 4] [--epochs 3] [--batch 256] [--deaths 5] [--seed 1]\n");
            std::exit(1);
        }
    }
    return options;
}

// Kills whoever calls it, if it is his turn: once, by a file for each death, which the first removes.
class Killer {
public:
    Killer(const fs::path& folder, long deaths, long workers, std::uint64_t steps, long seed) {
        std::mt19937 random{static_cast<unsigned>(seed)};
        for (long i = 0; i < deaths; ++i) {
            const std::uint64_t step = 1 + random() % steps;
            const int rank = static_cast<int>(random() % static_cast<unsigned long>(workers));
            deaths_.push_back({step, rank, folder / ("death " + std::to_string(i))});
        }
    }
    void prepare() const {
        for (const Death& death : deaths_) std::ofstream{death.token};
    }
    long left() const {
        long count = 0;
        for (const Death& death : deaths_) count += fs::exists(death.token) ? 1 : 0;
        return count;
    }
    void look(std::uint64_t step, int rank) const {
        for (const Death& death : deaths_)
            if (death.step == step && death.rank == rank && ::unlink(death.token.c_str()) == 0) ::raise(SIGKILL);
    }

private:
    struct Death {
        std::uint64_t step;
        int rank;
        fs::path token;
    };
    std::vector<Death> deaths_;
};

std::string read_file(const fs::path& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

int main(int argc, char** argv) {
    const auto options = options_from(argc, argv);
    const auto workers = static_cast<int>(options.at("--workers"));
    const long epochs = options.at("--epochs");
    const auto batch_size = static_cast<std::size_t>(options.at("--batch"));
    const std::uint64_t images = 60000, per_step = static_cast<std::uint64_t>(workers) * batch_size;
    const std::uint64_t steps = static_cast<std::uint64_t>(epochs) * ((images + per_step - 1) / per_step);

    // This program is started again as each worker, which learns from the first where the files are.
    const bool is_first = ::getenv("SURVIVOR_FOLDER") == nullptr;
    if (is_first) {
        char folder[] = "/tmp/survivor-XXXXXX";
        if (::mkdtemp(folder) == nullptr) return 1;
        ::setenv("SURVIVOR_FOLDER", folder, 1);
    }
    const fs::path folder = ::getenv("SURVIVOR_FOLDER");
    const Killer killer{folder, options.at("--deaths"), workers, steps, options.at("--seed")},
        nobody{folder, 0, 1, 1, 1};

    const auto train = [&](const char* name, const Killer& dangers) {
        const auto body = [&](auto& world) {
            const fashion::Images set{"/usr/share/datasets/fashion-mnist", "train"};
            fashion::Perceptron model{{fashion::Images::pixels, 128, fashion::Images::classes}, 1};
            hvd::ShardedDataset data{set, world, {.batch_size = batch_size, .seed = 1, .last = hvd::Last::Uneven}};
            hvd::DistributedOptimizer optimizer{world, model, fashion::Sgd{0.05f}};
            hvd::broadcast_parameters(world, model);
            for (std::size_t epoch : data.epochs(epochs)) {
                for (auto batch : data.epoch(epoch)) {
                    const std::uint64_t step = world.state().commits() + 1;
                    const double loss = batch.size() > 0 ? model.backward(batch) : 0;
                    dangers.look(step, world.rank());
                    optimizer.step(batch);
                    if (step % (steps / 6 + 1) == 0 || step == steps) {
                        const double mean = hvd::average_metric(world, loss);
                        if (world.rank() == 0)
                            std::printf("%s: step %llu of %llu, loss %.4f\n", name,
                                        static_cast<unsigned long long>(step), static_cast<unsigned long long>(steps),
                                        mean);
                    }
                }
            }
        };
        return hvd::launch<hvd::Mpi, hvd::Ring>(
            argc, argv, body, {.workers = workers, .elastic = true, .checkpoint = (folder / name).string() + ".hvd"});
    };

    if (is_first) killer.prepare();
    int code = train("in peace", nobody);
    if (code == 0) code = train("with deaths", killer);
    if (!is_first) return code;

    // What was trained is in the files with which the jobs have ended: parameters, momenta, and positions in the data.
    const std::string peace = read_file(folder / "in peace.hvd"), deaths = read_file(folder / "with deaths.hvd");
    const long left = killer.left();
    if (code == 0 && !peace.empty() && peace == deaths && left == 0) {
        std::printf("%ld workers were killed, and the result is that of the training in peace: %zu bytes, all equal\n",
                    options.at("--deaths"), deaths.size());
    } else {
        std::printf("FAILED: code %d, %zu and %zu bytes%s, %ld of the deaths did not come\n", code, peace.size(),
                    deaths.size(), peace == deaths ? "" : " that differ", left);
        code = 1;
    }
    fs::remove_all(folder);
    return code;
}
