// A test double of the CUDA runtime and of NCCL, for machines without a GPU: host memory stands for device memory, ranks are
// threads, streams are threads too. Linked in place of the libraries, and compiled against their headers. This is what tests
// steer it by.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace hvd_test_double {

/// Devices that the process sees from now on; 0: there is no driver.
void set_devices(int count);
/// Before each thing that a stream does it waits for up to so many microseconds; 0: not at all.
void delay(unsigned seed, int most_microseconds);
/// The `nth` call of the function from now on, by any thread, does nothing and returns `code`.
void fail(const std::string& function, int nth, int code);
/// From now on every communicator of that rank has this asynchronous error.
void asynchronous_error(int rank, int code);
/// Calls of the function since the last reset.
int calls(const std::string& function);

/// What has been made and not given back.
struct Live {
    int streams = 0, events = 0, communicators = 0;
    std::size_t device_blocks = 0, pinned_blocks = 0;
};
Live live();

/// As at the start; what lives stays.
void reset();

/// For the double's own parts: counts the call, and says what it is to return where a test has asked for that.
std::optional<int> enter(const char* function);
int asynchronous_error_of(int rank);
void add_communicator(int number);
/// Device memory or pinned memory lies there, with at least so many bytes left.
bool is_device_memory(const void* begin, std::size_t bytes);

}  // namespace hvd_test_double
