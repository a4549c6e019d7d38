#include <hvd/hvd.hpp>

#include <cstdio>

struct Model {  // y = w x, to be fitted to y = 3 x
    std::vector<float> w{0}, dw{0};
    auto parameters() { return std::tie(w); }
    auto gradients() { return std::tie(dw); }
};
struct Sgd {
    void step(Model& model) { model.w[0] -= 0.1f * model.dw[0]; }
};

int main(int argc, char** argv) {
    return hvd::launch(argc, argv, [](auto& world) {
        Model model;
        hvd::ShardedDataset data{std::vector<float>{0.5f, 1.0f, 1.5f, 2.0f}, world};
        hvd::DistributedOptimizer optimizer{world, model, Sgd{}};
        hvd::broadcast_parameters(world, model);
        for (auto epoch : data.epochs(100))
            for (auto batch : data.epoch(epoch)) {
                model.dw[0] = (model.w[0] - 3) * batch[0] * batch[0];
                optimizer.step();
            }
        std::printf("worker %d of %d: w = %.2f\n", world.rank(), world.size(), static_cast<double>(model.w[0]));
        if (!(model.w[0] > 2.99f && model.w[0] < 3.01f)) throw std::runtime_error{"it did not learn"};
    });
}
