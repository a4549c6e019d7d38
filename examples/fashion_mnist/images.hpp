// Images and their labels, from the four files of Fashion-MNIST.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

#include <hvd/data/idx_dataset.hpp>  // hvd

namespace fashion {

struct Sample {
    std::span<const std::uint8_t> pixels;
    std::size_t label;
};

/// What hvd calls a data set: size() and operator[].
class Images {
public:
    static constexpr std::size_t pixels = 28 * 28, classes = 10;

    /// `name` is "train" or "t10k". Throws when the files are missing, damaged, or no such images.
    Images(const std::string& folder, const std::string& name)
        : images_{file(folder, name + "-images-idx3-ubyte")}, labels_{file(folder, name + "-labels-idx1-ubyte")} {
        if (images_.sample_size() != pixels) fail(images_.path(), "its images do not have 28 x 28 pixels");
        if (labels_.sample_size() != 1) fail(labels_.path(), "its labels are not one byte each");
        if (images_.size() != labels_.size())
            fail(labels_.path(), "it has " + std::to_string(labels_.size()) + " labels for " +
                                     std::to_string(images_.size()) + " images");
        for (std::size_t i = 0; i < labels_.size(); ++i)
            if (labels_[i][0] >= classes)
                fail(labels_.path(), "label " + std::to_string(i) + " is " + std::to_string(labels_[i][0]) +
                                         ", and there are 10 classes");
    }

    std::size_t size() const { return images_.size(); }
    Sample operator[](std::size_t i) const { return {images_[i], labels_[i][0]}; }

private:
    /// The file as it is, or else compressed.
    static std::string file(const std::string& folder, const std::string& name) {
        const std::string plain = (std::filesystem::path{folder} / name).string();
        return std::filesystem::exists(plain) ? plain : plain + ".gz";
    }

    [[noreturn]] static void fail(const std::string& path, const std::string& reason) {
        throw std::runtime_error{path + ": " + reason};
    }

    hvd::IdxDataset images_, labels_;  // hvd
};

}  // namespace fashion
