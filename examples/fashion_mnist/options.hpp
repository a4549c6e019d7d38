// The command line.
#pragma once

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace fashion {

struct Options {
    int workers = 0;  // 0: as many as the launcher started, else 2
    std::size_t epochs = 24;
    std::size_t batch = 1024;
    std::string algorithm = "auto";
    std::string transport = "mpi";
    std::string data = "/usr/share/datasets/fashion-mnist";
    std::string curve = "fashion_mnist.csv";
    float rate = 0.07f;
    unsigned seed = 1;
    double require = 0;

    void add_to(CLI::App& app) {
        app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
        app.add_option("--workers", workers, "Number of workers; 2, or what the launcher started")
            ->check(CLI::Range(1, 4096));
        app.add_option("--epochs", epochs, "Times to go through the training images")
            ->check(CLI::Range(1, 1000000))
            ->capture_default_str();
        app.add_option("--batch", batch, "Images per worker and step")
            ->check(CLI::Range(1, 60000))
            ->capture_default_str();
        app.add_option("--algorithm", algorithm, "Allreduce algorithm")
            ->check(CLI::IsMember({"auto", "ring", "tree", "halving_doubling", "direct", "native", "hierarchical"}))
            ->capture_default_str();
        app.add_option("--transport", transport, "Workers are processes (mpi) or threads (local)")
            ->check(CLI::IsMember({"mpi", "local"}))
            ->capture_default_str();
        app.add_option("--data", data, "Folder of the four files of Fashion-MNIST, plain or .gz")
            ->capture_default_str();
        app.add_option("--curve", curve,
                       "Learning curve to write as CSV, and as PNG if gnuplot is found; 'none' for no file")
            ->capture_default_str();
        const CLI::Validator is_number{[](const std::string& text) {
                                           const double value = std::strtod(text.c_str(), nullptr);
                                           return std::isfinite(value) ? std::string{} : text + " is no number";
                                       },
                                       "NUMBER"};
        app.add_option("--rate", rate, "Learning rate of one worker; it grows with the root of their number")
            ->check(is_number)
            ->capture_default_str();
        app.add_option("--seed", seed, "Of the first weights and the order of the images")->capture_default_str();
        app.add_option("--require", require, "Fail when the test accuracy stays below this fraction, as in 0.88")
            ->check(is_number)
            ->check(CLI::Range(0.0, 1.0));
    }
};

}  // namespace fashion
