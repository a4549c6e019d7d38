// Every algorithm that sends messages, over these element types.
#include "choices.hpp"

TEST_CASE("allreduce") { sweep_choices<hvd::testing::IntegerElements>(); }
