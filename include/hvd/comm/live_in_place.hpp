// The lives of a worker that goes on when others of its job die: with each, the ranks that are left make a world of their own
// and enter the body again. Needs MPI with ULFM (Bland, Bouteiller, Herault, Bosilca and Dongarra 2013).
#pragma once

#ifdef HVD_WITH_MPI

#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <hvd/core/error.hpp>
#include <hvd/elastic/supervised_worker.hpp>
#include <hvd/transport/mpi_process.hpp>

namespace hvd::detail {

/// The processes of a job that may be alive. What each life runs on is made from them by one call on every rank, whatever became
/// of the lives before, so that all make the same calls.
class MpiMembers {
public:
    /// Collective with those who were there before, for one that joins them.
    explicit MpiMembers(bool is_newcomer) {
        if (is_newcomer) join();
    }
    MPI_Comm all() const { return all_; }

    /// Those that are left, if they are `size`.
    MPI_Comm left(int size) const {
        MPI_Comm comm = MPI_COMM_NULL;
        int found = 0;
        if (ulfm_shrink(all_, comm)) MPI_Comm_size(comm, &found);
        return found == size ? comm : MPI_COMM_NULL;
    }

    /// Collective over `comm`: starts a shell for each script, with this program for what it runs, and takes them in. Throws
    /// TransportError.
    MPI_Comm grow(MPI_Comm comm, const std::vector<std::string>& scripts) {
        std::vector<std::string> words{"-c", ""};
        for (const std::string& word : own_command()) words.push_back(word);
        const std::size_t count = scripts.size();
        std::vector<std::vector<char*>> arguments(count);
        std::vector<char**> lists;
        std::vector<std::string> texts = scripts;
        for (std::size_t i = 0; i < count; ++i) {
            for (std::string& word : words) arguments[i].push_back(word.data());
            arguments[i][1] = texts[i].data();
            arguments[i].push_back(nullptr);
            lists.push_back(arguments[i].data());
        }
        std::string shell = "/bin/sh";
        std::vector<char*> programs(count, shell.data());
        const std::vector<int> ones(count, 1);
        MPI_Info info = MPI_INFO_NULL;
        MPI_Info_create(&info);
        MPI_Info_set(info, "map_by", ":OVERSUBSCRIBE");
        MPI_Info_set(info, "bind_to", "none");
        std::vector<MPI_Info> infos(count, MPI_INFO_NULL);  // given once, they are for all
        infos[0] = info;
        MPI_Comm between = MPI_COMM_NULL;
        check_mpi(MPI_Comm_spawn_multiple(static_cast<int>(count), programs.data(), lists.data(), ones.data(),
                                          infos.data(), 0, comm, &between, MPI_ERRCODES_IGNORE),
                  "MPI_Comm_spawn_multiple");
        MPI_Info_free(&info);
        return merge(between, false);
    }

private:
    void join() {
        MPI_Comm between = MPI_COMM_NULL;
        check_mpi(MPI_Comm_get_parent(&between), "MPI_Comm_get_parent");
        merge(between, true);
    }
    MPI_Comm merge(MPI_Comm between, bool is_newcomer) {
        MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
        check_mpi(MPI_Intercomm_merge(between, is_newcomer ? 1 : 0, &all_), "MPI_Intercomm_merge");
        MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
        return all_;
    }

    MPI_Comm all_ = MPI_COMM_WORLD;
};

/// Whether the supervisor calls all out of this life, for which it may need a moment.
inline bool changes_soon(const MpiWorker& worker) {
    const auto until = Clock::now() + std::chrono::milliseconds{500};
    while (!worker.has_changed() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return worker.has_changed();
}

/// Calls `live(comm)` with the ranks of each life, until it returns. The supervisor says who is left or joins, and what is
/// restored.
template <class Live>
void live_in_place(SupervisedWorker& supervised, Live&& live) {
    MpiProcess& process = MpiProcess::instance();
    outlives_deaths_flag = true;
    MpiMembers members{supervised.is_newcomer()};
    MPI_Comm comm = members.all();
    if (supervised.is_newcomer()) process.has_outlived();
    process.begin_life(supervised.wanted_life(), supervised.life());
    supervised.enter(WorkerPhase::Running);
    for (;;) {
        try {
            if (comm != MPI_COMM_NULL) {
                live(comm);
                process.go_on_with(comm);
                return;
            }
        } catch (const WorldChanged&) {
        } catch (const TransportError&) {  // perhaps the consequence of a death, when somebody unwinds
            if (!changes_soon(*process.worker())) throw;
        }
        if (comm != MPI_COMM_NULL && comm != members.all()) ulfm_revoke(comm);
        process.has_outlived();
        supervised.wait_for_next_life();
        process.begin_life(supervised.wanted_life(), supervised.life());
        const auto scripts = supervised.newcomers();
        // Nothing where a worker is gone of whom either MPI or the supervisor does not know yet.
        comm = members.left(supervised.workers() - static_cast<int>(scripts.size()));
        if (comm != MPI_COMM_NULL && !scripts.empty()) comm = members.grow(comm, scripts);
    }
}

}  // namespace hvd::detail

#endif
