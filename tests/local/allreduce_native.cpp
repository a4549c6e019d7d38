// Native where the transport brings no allreduce of its own.
#include "sweep.hpp"

TEST_CASE("native") {
    sweep([](auto& world) { check_algorithm(world, hvd::Native{}); }, all_sizes);
}
