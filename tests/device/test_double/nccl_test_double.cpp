// NCCL's part of the test double: see test_double.hpp.
#include "test_double.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "reduce.hpp"

namespace {

using hvd_test_double::Reduction;

/// What one rank calls.
struct Call {
    const char* kind = "";
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t count = 0;
    ncclDataType_t type = ncclUint8;
    Reduction reduction{};
    int root = -1;

    bool is_like(const Call& other) const {
        return std::string{kind} == other.kind && count == other.count && type == other.type &&
               reduction.op == other.reduction.op && root == other.root;
    }
};

/// The k-th collective of a group: its ranks meet here, and the last to come does the work of all.
struct Meeting {
    std::vector<Call> calls;
    int came = 0;
    bool is_over = false, is_mismatch = false;
};

/// All ranks of a communicator.
struct Group {
    explicit Group(int ranks) : size{ranks}, devices(static_cast<std::size_t>(ranks), -1) {}
    const int size;
    std::mutex mutex;
    std::condition_variable changed;
    int joined = 0;
    bool has_duplicates = false;
    std::vector<int> devices;
    std::map<std::size_t, Meeting> meetings;
    std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> mail;  // from, to
};

std::mutex groups_mutex;
std::map<std::string, std::weak_ptr<Group>>& groups() {
    static auto* const all = new std::map<std::string, std::weak_ptr<Group>>;
    return *all;
}

thread_local std::string last_words;

ncclResult_t refuse(ncclResult_t code, const char* words) {
    last_words = words;
    return code;
}

}  // namespace

struct ncclComm {
    std::shared_ptr<Group> group;
    int rank = 0, device = 0;
    bool is_blocking = true;
    std::atomic<bool> is_aborted = false;
    std::atomic<int> error = 0, busy = 0;
    std::size_t operations = 0;
    std::vector<Reduction> factors;
    std::shared_ptr<ncclComm> self;  // until destroyed
};

namespace {

/// Returns from the function when a test has asked for a failure of it.
#define ENTER(function)                                      \
    if (const auto code = hvd_test_double::enter(#function)) \
    return refuse(static_cast<ncclResult_t>(*code), "as the test asked for")

using Shared = std::shared_ptr<ncclComm>;

void carry_out(Meeting& meeting, int size) {
    const std::vector<Call>& calls = meeting.calls;
    for (const Call& call : calls)
        if (!call.is_like(calls[0])) {
            meeting.is_mismatch = true;
            return;
        }
    const Call& first = calls[0];
    const std::string kind = first.kind;
    const std::size_t element = hvd_test_double::size_of(first.type), bytes = first.count * element;
    const auto place = [](void* data, std::size_t at) { return static_cast<std::byte*>(data) + at; };
    std::vector<const void*> inputs;
    for (const Call& call : calls) inputs.push_back(call.in);
    if (kind == "AllReduce" || kind == "Reduce") {
        std::vector<std::byte> sum(bytes);
        hvd_test_double::reduce(sum.data(), inputs, first.count, first.type, first.reduction, size);
        for (int r = 0; r < size; ++r)
            if (kind == "AllReduce" || r == first.root)
                std::memcpy(calls[static_cast<std::size_t>(r)].out, sum.data(), bytes);
    } else if (kind == "ReduceScatter") {
        const std::size_t n = first.count * static_cast<std::size_t>(size);
        std::vector<std::byte> sum(n * element);
        hvd_test_double::reduce(sum.data(), inputs, n, first.type, first.reduction, size);
        for (std::size_t r = 0; r < calls.size(); ++r) std::memcpy(calls[r].out, sum.data() + r * bytes, bytes);
    } else if (kind == "Broadcast") {
        std::vector<std::byte> data(bytes);
        std::memcpy(data.data(), calls[static_cast<std::size_t>(first.root)].in, bytes);
        for (const Call& call : calls) std::memcpy(call.out, data.data(), bytes);
    } else if (kind == "AllGather") {
        std::vector<std::byte> all(bytes * calls.size());
        for (std::size_t r = 0; r < calls.size(); ++r) std::memcpy(all.data() + r * bytes, calls[r].in, bytes);
        for (const Call& call : calls) std::memcpy(place(call.out, 0), all.data(), all.size());
    }
}

/// On the stream: meets the others for operation `number`.
void meet(const Shared& comm, std::size_t number, const Call& call) {
    Group& group = *comm->group;
    std::unique_lock lock{group.mutex};
    Meeting& meeting = group.meetings[number];
    if (meeting.calls.empty()) meeting.calls.resize(static_cast<std::size_t>(group.size));
    if (comm->is_aborted) return;
    meeting.calls[static_cast<std::size_t>(comm->rank)] = call;
    if (++meeting.came == group.size) {
        carry_out(meeting, group.size);
        meeting.is_over = true;
        group.changed.notify_all();
    }
    group.changed.wait(lock, [&] { return meeting.is_over || comm->is_aborted; });
    if (meeting.is_over && meeting.is_mismatch) comm->error = ncclInvalidUsage;
}

struct Parcel {
    bool is_send;
    int peer;
    void* data;
    std::size_t bytes;
};

/// On the stream: all messages of a group of calls, at the same time.
void exchange(const Shared& comm, const std::vector<Parcel>& parcels) {
    Group& group = *comm->group;
    std::unique_lock lock{group.mutex};
    if (comm->is_aborted) return;
    for (const Parcel& p : parcels) {
        if (!p.is_send) continue;
        const auto* data = static_cast<const std::byte*>(p.data);
        group.mail[{comm->rank, p.peer}].emplace_back(data, data + p.bytes);
    }
    group.changed.notify_all();
    for (const Parcel& p : parcels) {
        if (p.is_send) continue;
        auto& mail = group.mail[{p.peer, comm->rank}];
        group.changed.wait(lock, [&] { return !mail.empty() || comm->is_aborted; });
        if (comm->is_aborted) return;
        if (mail.front().size() != p.bytes) comm->error = ncclInvalidUsage;
        else if (p.bytes > 0) std::memcpy(p.data, mail.front().data(), p.bytes);
        mail.pop_front();
    }
}

/// The calls between ncclGroupStart and ncclGroupEnd of this thread.
struct Gathered {
    Shared comm;
    cudaStream_t stream;
    std::vector<std::function<void()>> collectives;
    std::vector<Parcel> parcels;
};
thread_local int depth = 0;
thread_local std::vector<Gathered> gathered;

Gathered& gather(ncclComm_t comm, cudaStream_t stream) {
    for (Gathered& g : gathered)
        if (g.comm.get() == comm && g.stream == stream) return g;
    gathered.push_back({comm->self, stream, {}, {}});
    return gathered.back();
}

/// cudaLaunchHostFunc takes a plain function.
void give(cudaStream_t stream, std::function<void()> work) {
    cudaLaunchHostFunc(
        stream,
        [](void* data) {
            const std::unique_ptr<std::function<void()>> owned{static_cast<std::function<void()>*>(data)};
            (*owned)();
        },
        new std::function<void()>{std::move(work)});
}

ncclResult_t launch() {
    bool is_in_progress = false;
    for (Gathered& g : gathered) {
        for (auto& collective : g.collectives) give(g.stream, std::move(collective));
        if (!g.parcels.empty()) {
            give(g.stream, [comm = g.comm, parcels = g.parcels] { exchange(comm, parcels); });
        }
        if (!g.comm->is_blocking) {
            g.comm->busy = 1;
            is_in_progress = true;
        }
    }
    gathered.clear();
    return is_in_progress ? ncclInProgress : ncclSuccess;
}

ncclResult_t queue(ncclComm_t comm, cudaStream_t stream, Call call, ncclRedOp_t op = ncclSum) {
    if (comm == nullptr) return refuse(ncclInvalidArgument, "comm is NULL");
    const bool is_scatter = std::string{call.kind} == "ReduceScatter",
               is_gather = std::string{call.kind} == "AllGather";
    if (call.root >= comm->group->size) return refuse(ncclInvalidArgument, "there is no such root");
    const std::size_t bytes = call.count * hvd_test_double::size_of(call.type);
    const auto all = static_cast<std::size_t>(comm->group->size);
    const bool needs_out = call.root < 0 || call.root == comm->rank || std::string{call.kind} == "Broadcast";
    if (!hvd_test_double::is_device_memory(call.in, is_scatter ? bytes * all : bytes) &&
        (call.root < 0 || call.root == comm->rank || std::string{call.kind} == "Reduce"))
        return refuse(ncclInvalidArgument, "the input is no device memory");
    if (needs_out && !hvd_test_double::is_device_memory(call.out, is_gather ? bytes * all : bytes))
        return refuse(ncclInvalidArgument, "the output is no device memory");
    call.reduction.op = op;
    if (static_cast<int>(op) >= static_cast<int>(ncclNumOps)) {
        call.reduction = comm->factors[static_cast<std::size_t>(op) - static_cast<std::size_t>(ncclNumOps)];
        call.reduction.op = ncclNumOps;
    }
    const std::size_t number = comm->operations++;
    gather(comm, stream).collectives.push_back([self = comm->self, number, call] { meet(self, number, call); });
    return depth > 0 ? ncclSuccess : launch();
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t code) {
    switch (code) {
        case ncclSuccess:
            return "no error";
        case ncclUnhandledCudaError:
            return "unhandled cuda error";
        case ncclSystemError:
            return "unhandled system error";
        case ncclInternalError:
            return "internal error";
        case ncclInvalidArgument:
            return "invalid argument";
        case ncclInvalidUsage:
            return "invalid usage";
        case ncclRemoteError:
            return "remote process exited or there was a network error";
        case ncclInProgress:
            return "NCCL operation in progress";
        default:
            return "unknown result code";
    }
}
const char* ncclGetLastError(ncclComm_t) { return last_words.c_str(); }
ncclResult_t ncclGetVersion(int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    ENTER(ncclGetUniqueId);
    static std::atomic<unsigned> number = 0;
    std::memset(id, 0, sizeof *id);
    std::snprintf(id->internal, sizeof id->internal, "double %u", ++number);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
    ENTER(ncclCommInitRankConfig);
    const auto made = std::make_shared<ncclComm>();
    made->self = made;
    made->rank = rank;
    made->is_blocking = config == nullptr || config->blocking != 0;
    cudaGetDevice(&made->device);
    {
        const std::scoped_lock lock{groups_mutex};
        std::weak_ptr<Group>& known = groups()[id.internal];
        made->group = known.lock();
        if (!made->group) known = made->group = std::make_shared<Group>(size);
    }
    *comm = made.get();
    hvd_test_double::add_communicator(1);
    Group& group = *made->group;
    std::unique_lock lock{group.mutex};
    for (int device : group.devices) group.has_duplicates = group.has_duplicates || device == made->device;
    group.devices[static_cast<std::size_t>(rank)] = made->device;
    ++group.joined;
    group.changed.notify_all();
    if (!made->is_blocking) return ncclInProgress;
    group.changed.wait(lock, [&] { return group.joined == group.size; });
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
    return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    ENTER(ncclCommGetAsyncError);
    {
        const std::scoped_lock lock{comm->group->mutex};
        if (comm->group->has_duplicates) {
            last_words = "Duplicate GPU detected";
            comm->error = ncclInvalidUsage;
        }
        *error = comm->group->joined < comm->group->size ? ncclInProgress : ncclSuccess;
    }
    if (comm->busy.exchange(0) != 0) *error = ncclInProgress;
    if (comm->error != 0) *error = static_cast<ncclResult_t>(comm->error.load());
    if (const int asked = hvd_test_double::asynchronous_error_of(comm->rank)) {
        last_words = "as the test asked for";
        *error = static_cast<ncclResult_t>(asked);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) {
    ENTER(ncclCommFinalize);
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    ENTER(ncclCommAbort);
    {
        const std::scoped_lock lock{comm->group->mutex};
        comm->is_aborted = true;
        comm->group->changed.notify_all();
    }
    hvd_test_double::add_communicator(-1);
    comm->self.reset();
    return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    ENTER(ncclCommDestroy);
    hvd_test_double::add_communicator(-1);
    comm->self.reset();
    return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
    *count = comm->group->size;
    return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
    ENTER(ncclGroupStart);
    ++depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    ENTER(ncclGroupEnd);
    return --depth == 0 ? launch() : ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                                      ncclComm_t comm) {
    ENTER(ncclRedOpCreatePreMulSum);
    *op = static_cast<ncclRedOp_t>(static_cast<int>(ncclNumOps) + static_cast<int>(comm->factors.size()));
    Reduction reduction;
    reduction.factor = hvd_test_double::number_at(scalar, type);
    comm->factors.push_back(reduction);
    return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) {
    ENTER(ncclRedOpDestroy);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    ENTER(ncclAllReduce);
    return queue(comm, stream, {"AllReduce", in, out, count, type, {}, -1}, op);
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
    ENTER(ncclReduce);
    return queue(comm, stream, {"Reduce", in, out, count, type, {}, root}, op);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
    ENTER(ncclReduceScatter);
    return queue(comm, stream, {"ReduceScatter", in, out, count, type, {}, -1}, op);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
    ENTER(ncclBroadcast);
    return queue(comm, stream, {"Broadcast", in, out, count, type, {}, root});
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    ENTER(ncclAllGather);
    return queue(comm, stream, {"AllGather", in, out, count, type, {}, -1});
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    ENTER(ncclSend);
    gather(comm, stream)
        .parcels.push_back({true, peer, const_cast<void*>(data), count * hvd_test_double::size_of(type)});
    return depth > 0 ? ncclSuccess : launch();
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    ENTER(ncclRecv);
    gather(comm, stream).parcels.push_back({false, peer, data, count * hvd_test_double::size_of(type)});
    return depth > 0 ? ncclSuccess : launch();
}

}  // extern "C"
