// What is refused as a data set, and how.
#include <cstddef>
#include <string>
#include <vector>

#include <hvd/data/file_dataset.hpp>
#include <hvd/data/sharded_dataset.hpp>

struct World {
    int rank() const { return 0; }
    int size() const { return 1; }
};
struct Nothing {};
struct NoSamples {
    std::size_t size() const { return 0; }
};
struct NoSize {
    int operator[](std::size_t) const { return 0; }
};
struct NotConst {
    std::size_t size() { return 0; }
    int operator[](std::size_t) { return 0; }
};

int main() {
    const World world;
    NotConst right;
    hvd::ShardedDataset data{right, world};
    for (auto batch : data.epoch(0)) static_cast<void>(batch);
#if CASE == 1
    // expect: this type is no data set
    Nothing set;
    hvd::ShardedDataset wrong{set, world, {.batch_size = 2}};
    for (auto batch : wrong.epoch(0))
        for (auto x : batch) static_cast<void>(x);
#elif CASE == 2
    // expect: this data set lacks operator[](std::size_t)
    NoSamples set;
    hvd::ShardedDataset wrong{set, world, {.batch_size = 2}};
    for (auto batch : wrong.epoch(0)) static_cast<void>(batch);
#elif CASE == 3
    // expect: this data set lacks size()
    NoSize set;
    hvd::ShardedDataset wrong{set, world};
#elif CASE == 4
    // expect: this data set is const but its size() or operator[] is not
    const NotConst set;
    hvd::ShardedDataset wrong{set, world};
    for (auto batch : wrong.epoch(0)) static_cast<void>(batch);
#elif CASE == 5
    // expect: an array is no data set
    float set[10];
    hvd::ShardedDataset wrong{set, world};
    for (auto batch : wrong.epoch(0)) static_cast<void>(batch);
#elif CASE == 6
    // expect: an array is no data set
    float* set = nullptr;
    hvd::ShardedDataset wrong{set, world};
    for (auto batch : wrong.epoch(0)) static_cast<void>(batch);
#elif CASE == 7
    // expect: this is no communicator
    std::vector<int> set;
    hvd::ShardedDataset wrong{set, 3, {.batch_size = 2}};
    for (auto batch : wrong.epoch(0)) static_cast<void>(batch);
#elif CASE == 8
    // expect: a record that lies in a file must be trivially copyable
    hvd::FileDataset<std::string> set{"x"};
    hvd::ShardedDataset wrong{set, world};
#elif CASE == 9
    // expect: this type is no data set
    hvd::ShardedDataset wrong{Nothing{}, world, {.batch_size = 2}};
    for (auto batch : wrong.epoch(0))
        for (auto x : batch) static_cast<void>(x);
#elif CASE == 10
    // expect: this type is no data set
    hvd::ShardedDataset wrong{5, world, {.batch_size = 2}};
    for (auto batch : wrong.epoch(0))
        for (auto x : batch) static_cast<void>(x);
#endif
}
