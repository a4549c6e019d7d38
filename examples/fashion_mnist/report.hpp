// What worker 0 shows and writes: a progress bar, one line per epoch, the learning curve.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "start.hpp"

namespace fashion {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One line that is written over and over, on a terminal only.
class ProgressBar {
public:
    explicit ProgressBar(bool shown) : shown_{shown} {}

    void show(const std::string& title, double fraction, double loss, double samples_per_second) {
        if (!shown_) return;
        constexpr int width = 30;
        const int full = static_cast<int>(fraction * width);
        std::string bar(static_cast<std::size_t>(full), '=');
        bar.resize(width, ' ');
        std::printf("\r%s [%s] %3.0f %%  loss %.4f  %.0f samples/s\033[K", title.c_str(), bar.c_str(), fraction * 100,
                    loss, samples_per_second);
        std::fflush(stdout);
    }
    void clear() {
        if (shown_) std::printf("\r\033[K");
    }

private:
    bool shown_;
};

/// The learning curve as a CSV file: epoch,step,loss,accuracy,seconds; the accuracy is there at the end of an epoch.
class Curve {
public:
    explicit Curve(const std::string& path) : path_{path} {
        if (path_.empty()) return;
        file_.open(path_);
        file_ << "epoch,step,loss,accuracy,seconds\n";
    }

    void add(std::size_t epoch, std::size_t step, double loss, double seconds) {
        file_ << epoch << ',' << step << ',' << loss << ",," << seconds << '\n';
    }
    void add(std::size_t epoch, std::size_t step, double loss, double accuracy, double seconds) {
        file_ << epoch << ',' << step << ',' << loss << ',' << accuracy << ',' << seconds << '\n';
    }

    /// Closes the file, draws it if gnuplot is there, and says what there is.
    std::string finish() {
        if (path_.empty()) return "none";
        file_.close();
        if (!file_) return "could not be written to " + path_;
        const std::string picture = std::filesystem::path{path_}.replace_extension(".png").string();
        return picture != path_ && draw(picture) ? path_ + " and " + picture : path_;
    }

private:
    static std::string quoted(const std::string& text) {
        std::string result = "'";
        for (char c : text) result += c == '\'' ? std::string{"''"} : std::string{c};
        return result + "'";
    }

    bool draw(const std::string& picture) const {
        if (std::system("command -v gnuplot >/dev/null 2>&1") != 0) return false;
        std::FILE* gnuplot = ::popen("gnuplot >/dev/null 2>&1", "w");
        if (gnuplot == nullptr) return false;
        const std::string data = quoted(path_);
        std::fprintf(gnuplot,
                     "set terminal png size 900,540\nset output %s\nset datafile separator ','\n"
                     "set xlabel 'seconds'\nset ylabel 'training loss'\nset y2label 'test accuracy'\nset y2tics\n"
                     "set ytics nomirror\nset yrange [0:]\nset key center right\nset grid\n"
                     "plot %s every ::1 using 5:3 with lines title 'loss', "
                     "%s every ::1 using 5:4 axes x1y2 with linespoints pointtype 7 title 'accuracy'\n",
                     quoted(picture).c_str(), data.c_str(), data.c_str());
        return ::pclose(gnuplot) == 0;
    }

    std::string path_;
    std::ofstream file_;
};

/// What is shown of the training. Keeps the same times and counts on all workers; only worker 0's is `shown`.
class Report {
public:
    Report(bool shown, const std::string& curve, std::size_t epochs, std::size_t steps, std::size_t workers)
        : shown_{shown},
          bar_{shown && is_terminal()},
          curve_{curve},
          epochs_{epochs},
          steps_{steps},
          workers_{workers} {}

    void begin_epoch(std::size_t epoch) {
        title_ = "epoch " + std::to_string(epoch + 1) + "/" + std::to_string(epochs_);
        epoch_ = epoch;
        step_ = samples_ = recent_ = 0;
        recent_sum_ = loss_sum_ = 0;
        epoch_began_ = Clock::now();
    }

    /// How much of the whole training is done.
    float fraction() const {
        return static_cast<float>(epoch_ * steps_ + step_) / static_cast<float>(epochs_ * steps_);
    }

    void step(double loss, std::size_t samples, double seconds_waited) {
        ++step_, ++recent_;
        recent_sum_ += loss;
        samples_ += samples * workers_;
        waited_ += seconds_waited;
    }

    /// Now and then, at the same steps on all workers, the loss is looked at.
    bool is_look_due() const { return recent_ == 20 || step_ == steps_; }
    double recent_loss() const { return recent_sum_ / static_cast<double>(recent_); }
    void look(double loss) {
        bar_.show(title_, static_cast<double>(step_) / static_cast<double>(steps_), loss,
                  speed(seconds_since(epoch_began_)));
        if (step_ < steps_) curve_.add(epoch_ + 1, epoch_ * steps_ + step_, loss, seconds_since(began_));
        loss_sum_ += loss * static_cast<double>(recent_);
        loss_ = loss;
        recent_sum_ = 0;
        recent_ = 0;
    }

    void end_training_of_epoch() {
        epoch_seconds_ = seconds_since(epoch_began_);
        trained_ += epoch_seconds_;
        all_samples_ += samples_;
    }

    void end_epoch(double accuracy) {
        curve_.add(epoch_ + 1, (epoch_ + 1) * steps_, loss_, accuracy, seconds_since(began_));
        bar_.clear();
        if (!shown_) return;
        std::printf("%s: loss %.4f, test accuracy %.2f %%, %.0f samples/s, %.1f s\n", title_.c_str(),
                    loss_sum_ / static_cast<double>(steps_), accuracy * 100, speed(epoch_seconds_),
                    seconds_since(began_));
        std::fflush(stdout);
    }

    /// `alone`: the samples per second of one worker.
    void end(double alone) {
        if (!shown_) return;
        const double all = seconds_since(began_), speed = static_cast<double>(all_samples_) / trained_;
        std::printf("trained in %.1f s, tested in %.1f s; %.1f %% of the training was spent in communication\n",
                    trained_, all - trained_, 100 * waited_ / trained_);
        std::printf("%zu worker%s: %.0f samples/s, %.2f times one worker alone\n", workers_, workers_ == 1 ? "" : "s",
                    speed, speed / alone);
        std::printf("learning curve: %s\n", curve_.finish().c_str());
    }

private:
    double speed(double seconds) const { return static_cast<double>(samples_) / seconds; }

    bool shown_;
    ProgressBar bar_;
    Curve curve_;
    std::size_t epochs_, steps_, workers_;
    std::string title_{};
    std::size_t epoch_ = 0, step_ = 0, recent_ = 0, samples_ = 0, all_samples_ = 0;
    double recent_sum_ = 0, loss_sum_ = 0, loss_ = 0;
    double epoch_seconds_ = 0, trained_ = 0, waited_ = 0;
    Clock::time_point began_ = Clock::now(), epoch_began_{};
};

}  // namespace fashion
