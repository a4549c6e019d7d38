// What worker 0 shows and writes: a progress bar, one line per epoch, the learning curve.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

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

}  // namespace fashion
