// How the checks of the test kit fail: with an exception whose text is a sentence. Independent of any test framework.
#pragma once

#include <concepts>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>

namespace hvd::testing {

/// A check of the test kit did not hold.
class Failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Throws Failure with the place of the call and `sentence`, which may be text or a function that returns it.
template <class Sentence>
void expect(bool ok, Sentence&& sentence, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (ok) return;
    std::string text = std::string{file} + ":" + std::to_string(line) + ": ";
    if constexpr (std::is_invocable_v<Sentence>) text += sentence();
    else text += sentence;
    throw Failure{text};
}

/// Throws Failure unless `call()` throws exactly an `E`, not a class derived from it. Returns the exception's text.
template <class E, class Call>
std::string expect_throws(Call&& call, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    try {
        call();
    } catch (const E& e) {
        const std::exception& thrown = e;
        expect(
            typeid(thrown) == typeid(E),
            [&] { return "expected another class of exception than that of: " + std::string{e.what()}; }, file, line);
        return e.what();
    }
    expect(false, "expected an exception, and none came", file, line);
    return {};
}

}  // namespace hvd::testing
