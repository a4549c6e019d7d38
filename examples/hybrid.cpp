// A program that has its own MPI: hvd joins in on a communicator that the program chooses, and leaves MPI to it.
// mpiexec -n 3 hybrid: all ranks but the last train, the last writes the log. With 2 ranks both train.
#include <mpi.h>
#include <hvd/hvd.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
    int level = MPI_THREAD_SINGLE, rank = 0, size = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);  // hvd is content with any level
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    const int trainers = size > 2 ? size - 1 : size;
    const bool trains = rank < trainers;
    MPI_Comm training = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, trains ? 0 : MPI_UNDEFINED, rank, &training);

    float mean = 0;
    if (trains) {
        // hvd duplicates the communicator, so that its messages never meet the program's own.
        hvd::Communicator world{hvd::Mpi{training}, hvd::HalvingDoubling{}};
        std::vector<float> value(1, static_cast<float>(rank));
        hvd::allreduce(world, value, hvd::average);
        mean = value[0];
        MPI_Comm_free(&training);  // after this hvd still works, on its duplicate
        hvd::barrier(world);
    }  // the communicator goes before MPI_Finalize

    // The program's own MPI, as ever.
    MPI_Bcast(&mean, 1, MPI_FLOAT, 0, MPI_COMM_WORLD);
    const bool ok = mean == static_cast<float>(trainers - 1) / 2;
    if (rank == size - 1)
        std::printf("%s: the mean over %d of %d ranks is %.1f\n", ok ? "OK" : "WRONG", trainers, size,
                    static_cast<double>(mean));
    MPI_Finalize();
    return ok ? 0 : 1;
}
