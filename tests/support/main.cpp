// The main of test programs that are one process: doctest's, with a watchdog.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include "watchdog.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

std::unique_ptr<hvd_test::Watchdog> watchdog;

class Listener : public doctest::IReporter {
public:
    explicit Listener(const doctest::ContextOptions&) {}

    void test_case_start(const doctest::TestCaseData& test) override {
        watchdog->enter("test case '" + std::string{test.m_name} + "' (" + test.m_file.c_str() + ":" +
                        std::to_string(test.m_line) + ")");
    }
    void test_case_reenter(const doctest::TestCaseData&) override { watchdog->alive(); }
    void test_case_end(const doctest::CurrentTestCaseStats&) override {
        watchdog->enter("the space between test cases");
    }
    void subcase_start(const doctest::SubcaseSignature&) override { watchdog->alive(); }
    void subcase_end() override { watchdog->alive(); }
    void log_assert(const doctest::AssertData&) override { watchdog->alive(); }
    void log_message(const doctest::MessageData&) override { watchdog->alive(); }

    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

REGISTER_LISTENER("watchdog", 1, Listener);

void hvd_test::alive() { watchdog->alive(); }

int main(int argc, char** argv) {
    watchdog = std::make_unique<hvd_test::Watchdog>([](const std::string& silence) {
        std::fprintf(stderr, "hvd test: %s: given up\n", silence.c_str());
        std::fflush(nullptr);
        std::_Exit(1);
    });
    doctest::Context context{argc, argv};
    const int code = context.run();
    watchdog.reset();
    return code;
}
