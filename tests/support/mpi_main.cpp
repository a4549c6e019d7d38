// The main of test programs that run under mpiexec. Whatever goes wrong on one rank ends the whole job with a
// non-zero code and names the rank: a failed REQUIRE, an exception, silence. --ranks=N says how many ranks the
// test needs; with another number it is skipped (code 77).
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include "mpi_world.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int skipped = 77;

MPI_Comm harness = MPI_COMM_NULL;  // the harness's own messages
int my_rank = 0;
int all_ranks = 1;
std::ostringstream output;  // what doctest prints on this rank
std::unique_ptr<hvd_test::Watchdog> watchdog;

// Every line of `text` behind the rank that printed it.
std::string prefixed(int rank, const std::string& text) {
    std::istringstream lines{text};
    std::string result;
    for (std::string line; std::getline(lines, line);) {
        if (!line.empty()) result += "[rank " + std::to_string(rank) + "] " + line + "\n";
    }
    return result;
}

// Prints what happened on this rank and ends the job.
[[noreturn]] void end_job(const std::string& what) {
    static std::mutex first;
    first.lock();  // never unlocked: whoever comes second waits for the end
    const std::string text = prefixed(my_rank, what);
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(nullptr);
    usleep(100'000);  // the launcher forwards what it has read, and stops reading at the abort
    alarm(5);         // should MPI_Abort hang, the signal ends this process and the launcher the others
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
}

// Waits without spinning, so that ranks that share a core do not hold each other up.
void wait_for(MPI_Request request) {
    for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done;) {
        sched_yield();
    }
}

std::string place(const char* file, int line) { return std::string{file} + ":" + std::to_string(line); }

class Listener : public doctest::IReporter {
public:
    explicit Listener(const doctest::ContextOptions&) {}

    void test_case_start(const doctest::TestCaseData& test) override {
        test_ = "test case '" + std::string{test.m_name} + "' (" +
                place(test.m_file.c_str(), static_cast<int>(test.m_line)) + ")";
        watchdog->enter(test_);
    }
    void test_case_reenter(const doctest::TestCaseData&) override { watchdog->alive(); }
    void test_case_end(const doctest::CurrentTestCaseStats&) override {
        // A rank that hangs inside the test case should speak before those that wait for it here.
        watchdog->enter("the barrier after " + test_, 5);
        MPI_Request request;
        MPI_Ibarrier(harness, &request);
        wait_for(request);
        watchdog->enter("the space between test cases");
    }
    void test_case_exception(const doctest::TestCaseException& e) override {
        end_job(test_ + " threw: " + e.error_string.c_str());
    }
    void subcase_start(const doctest::SubcaseSignature&) override { watchdog->alive(); }
    void subcase_end() override { watchdog->alive(); }

    void log_assert(const doctest::AssertData& a) override {
        watchdog->alive();
        using namespace doctest::assertType;
        const bool wants_throw = (a.m_at & (is_throws | is_throws_as | is_throws_with)) != 0;
        const bool failed = a.m_failed && (a.m_at & is_require) != 0;
        const bool threw = a.m_threw && !wants_throw;
        if (!failed && !threw) return;
        std::string text = place(a.m_file, a.m_line) + ": in " + test_ + ":\n" + doctest::assertString(a.m_at) + "( " +
                           a.m_expr + " )";
        if (a.m_threw) text += std::string{" threw "} + a.m_exception.c_str();
        if (a.m_decomp.size() != 0) text += std::string{" is false: "} + a.m_decomp.c_str();
        std::ostringstream context;
        for (int i = 0; i < get_num_active_contexts(); ++i) {
            context << "\n  with ";
            get_active_contexts()[i]->stringify(&context);
        }
        end_job(text + context.str());
    }
    void log_message(const doctest::MessageData& m) override {
        watchdog->alive();
        if ((m.m_severity & doctest::assertType::is_require) != 0)
            end_job(place(m.m_file, m.m_line) + ": in " + test_ + ": " + m.m_string.c_str());
    }

    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}

private:
    std::string test_;
};

// The size of the job that the launcher started, or 0 when it left no word.
int launched_ranks() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
        if (const char* text = std::getenv(name)) return std::atoi(text);
    }
    return 0;
}

int expected_ranks(int argc, char** argv) {
    constexpr char option[] = "--ranks=";
    for (int i = 1; i < argc; ++i) {
        if (std::strncmp(argv[i], option, sizeof option - 1) == 0) return std::atoi(argv[i] + sizeof option - 1);
    }
    const char* text = std::getenv("HVD_TEST_RANKS");
    return text ? std::atoi(text) : 0;
}

// Rank 0 prints what every rank has to say, in the order of ranks.
void print_in_order() {
    constexpr int tag = 1;
    MPI_Request request;
    const std::string text = output.str();
    if (my_rank != 0) {
        MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, tag, harness, &request);
        wait_for(request);
        return;
    }
    std::fputs(prefixed(0, text).c_str(), stdout);
    for (int r = 1; r < all_ranks; ++r) {
        MPI_Status status;
        for (int found = 0; MPI_Iprobe(r, tag, harness, &found, &status), !found;) sched_yield();
        int length = 0;
        MPI_Get_count(&status, MPI_CHAR, &length);
        std::vector<char> buffer(static_cast<std::size_t>(length));
        MPI_Irecv(buffer.data(), length, MPI_CHAR, r, tag, harness, &request);
        wait_for(request);
        std::fputs(prefixed(r, {buffer.begin(), buffer.end()}).c_str(), stdout);
    }
    std::fflush(stdout);
}

// 0 when the job is the one that was asked for.
int check_job(int expected) {
    const int launched = launched_ranks();
    if (launched != 0 && launched != all_ranks) {
        std::fprintf(stderr,
                     "hvd test: the launcher started %d ranks, MPI sees %d: this program is linked to another MPI "
                     "than the launcher's\n",
                     launched, all_ranks);
        return 1;
    }
    if (expected != 0 && expected != all_ranks) {
        if (my_rank == 0) std::printf("hvd test: skipped: needs %d ranks, has %d\n", expected, all_ranks);
        return skipped;
    }
    return 0;
}

int run(int argc, char** argv) {
    watchdog = std::make_unique<hvd_test::Watchdog>(
        [](const std::string& silence) { end_job(silence + ": given up\n" + output.str()); });
    doctest::Context context{argc, argv};
    context.setCout(&output);
    int code = context.run();
    watchdog->enter("the end of the program", 5);
    print_in_order();
    MPI_Request request;
    int worst = code;
    MPI_Iallreduce(&code, &worst, 1, MPI_INT, MPI_MAX, harness, &request);
    wait_for(request);
    return worst;
}

}  // namespace

REGISTER_LISTENER("ranks", 1, Listener);

void hvd_test::alive() { watchdog->alive(); }
MPI_Comm hvd_test::comm() { return MPI_COMM_WORLD; }
int hvd_test::rank() { return my_rank; }
int hvd_test::size() { return all_ranks; }

int main(int argc, char** argv) {
    int level = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &harness);
    MPI_Comm_rank(harness, &my_rank);
    MPI_Comm_size(harness, &all_ranks);
    int code = check_job(expected_ranks(argc, argv));
    if (code == 0) {
        code = run(argc, argv);
        watchdog->enter("MPI_Finalize", 5);
    }
    MPI_Comm_free(&harness);
    MPI_Finalize();
    watchdog.reset();
    return code;
}
