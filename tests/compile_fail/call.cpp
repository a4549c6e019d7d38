// Temporaries, constants and elements of another type, in every collective.
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hvd/comm/allgather.hpp>
#include <hvd/comm/allreduce.hpp>
#include <hvd/comm/alltoall.hpp>
#include <hvd/comm/broadcast.hpp>
#include <hvd/comm/gather.hpp>
#include <hvd/comm/launch.hpp>
#include <hvd/comm/object.hpp>
#include <hvd/comm/reduce.hpp>
#include <hvd/comm/reduce_scatter.hpp>
#include <hvd/comm/scatter.hpp>

using Vector = std::vector<float>;

struct WithPointer {
    std::unique_ptr<int> p;
};

int main() {
    return hvd::launch<hvd::Local>(2, [](auto& world) {
        Vector x(4), y(4);
        const Vector constant(4);
        const std::vector<std::size_t> counts(2, 2);
        std::vector<std::size_t> received;
        std::vector<int> integers(4);
        hvd::broadcast(world, std::span{x}, 0);
        hvd::allgather(world, Vector(3), y);
#if CASE == 1
        // expect: would be lost with this temporary tensor
        hvd::broadcast(world, Vector(3), 0);
#elif CASE == 2
        // expect: would be lost with this temporary tensor
        hvd::reduce(world, Vector(3), 0);
#elif CASE == 3
        // expect: would be lost with this temporary tensor
        hvd::allgather(world, x, Vector(3));
#elif CASE == 4
        // expect: would be lost with this temporary tensor
        hvd::allreduce_async(world, Vector(3)).wait();
#elif CASE == 5
        // expect: would be lost with this temporary tensor
        hvd::broadcast_async(world, Vector(3), 0).wait();
#elif CASE == 6
        // expect: this temporary tensor would be gone
        hvd::allgather_async(world, Vector(3), y).wait();
#elif CASE == 7
        // expect: this temporary tensor would be gone
        hvd::reduce_scatter_async(world, Vector(3), y).wait();
#elif CASE == 8
        // expect: this temporary tensor would be gone
        hvd::alltoall_async(world, Vector(4), counts, y, received).wait();
#elif CASE == 9
        // expect: this temporary tensor would be gone
        hvd::gather_async(world, Vector(4), y, 0).wait();
#elif CASE == 10
        // expect: this tensor is constant
        hvd::broadcast(world, constant, 0);
#elif CASE == 11
        // expect: this tensor is constant
        hvd::broadcast(world, std::span{constant}, 0);
#elif CASE == 12
        // expect: this tensor is constant
        hvd::alltoall(world, x, counts, constant);
#elif CASE == 13
        // expect: this tensor is constant
        hvd::scatter(world, x, constant, 0);
#elif CASE == 14
        // expect: constant tensors
        hvd::allreduce(world, std::tie(x, constant));
#elif CASE == 15
        // expect: constant tensors
        const std::vector<Vector> list(2);
        hvd::allreduce(world, list);
#elif CASE == 16
        // expect: different element types
        hvd::allgather(world, x, integers);
#elif CASE == 17
        // expect: different element types
        hvd::reduce_scatter(world, x, integers);
#elif CASE == 18
        // expect: different element types
        hvd::gather(world, x, integers, 0);
#elif CASE == 19
        // expect: this object cannot be sent as bytes
        WithPointer object;
        hvd::broadcast_object(world, object, 0);
#elif CASE == 20
        // expect: this object cannot be sent as bytes
        int number = 0;
        hvd::allgather_object(world, &number);
#elif CASE == 21
        // expect: this object cannot be sent as bytes
        std::list<int> list;
        hvd::broadcast_object(world, list, 0);
#elif CASE == 22
        // expect: a single number is no tensor
        hvd::broadcast(world, 3.0f, 0);
#elif CASE == 23
        // expect: this range is no tensor
        hvd::allgather(world, std::vector<std::string>(3));
#elif CASE == 24
        // expect: would be lost with this temporary tensor
        hvd::allreduce(world, x, Vector(4), hvd::sum);
#elif CASE == 25
        // expect: this tensor is constant
        hvd::allreduce(world, x, constant, hvd::sum);
#endif
    });
}
