// Messages over MPI, and the communicators that they travel on. Needs MPI.
#pragma once

#ifdef HVD_WITH_MPI

#include <mpi.h>

#include <climits>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <hvd/transport/mpi_process.hpp>

namespace hvd::detail {

/// A communicator of ours, freed when nobody uses it any more. One that has lost a rank is revoked, so that nobody waits in
/// it, and left to MPI.
class MpiCommunicator {
public:
    MpiCommunicator(MPI_Comm comm, std::shared_ptr<MpiWorker> worker) : comm_{comm}, worker_{std::move(worker)} {
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
    MpiCommunicator(const MpiCommunicator&) = delete;
    MpiCommunicator& operator=(const MpiCommunicator&) = delete;
    ~MpiCommunicator() {
        int finalised = 0;
        MPI_Finalized(&finalised);
        if (finalised) return;
        if (outlives_deaths() && worker_->has_changed()) ulfm_revoke(comm_);
        else MPI_Comm_free(&comm_);
    }
    MPI_Comm get() const { return comm_; }

private:
    MPI_Comm comm_;
    std::shared_ptr<MpiWorker> worker_;
};

/// MPI counts in int; longer messages are one element of a type made for them.
class MpiBytes {
public:
    explicit MpiBytes(std::size_t bytes) {
        if (bytes <= INT_MAX) {
            count_ = static_cast<int>(bytes);
            return;
        }
        constexpr std::size_t block = std::size_t{1} << 30;
        MPI_Datatype blocks = MPI_DATATYPE_NULL;
        check_mpi(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &blocks), "MPI_Type_contiguous");
        const int lengths[2] = {static_cast<int>(bytes / block), static_cast<int>(bytes % block)};
        const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(bytes / block * block)};
        const MPI_Datatype types[2] = {blocks, MPI_BYTE};
        check_mpi(MPI_Type_create_struct(2, lengths, offsets, types, &type_), "MPI_Type_create_struct");
        check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
        MPI_Type_free(&blocks);
        count_ = 1;
        made_ = true;
    }
    MpiBytes(const MpiBytes&) = delete;
    MpiBytes& operator=(const MpiBytes&) = delete;
    ~MpiBytes() {
        if (made_) MPI_Type_free(&type_);  // a message under way keeps it alive
    }
    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

private:
    int count_ = 0;
    MPI_Datatype type_ = MPI_BYTE;
    bool made_ = false;
};

/// Whether it is complete. One that has failed is left alone for good: MPI must neither free it nor complete it.
inline bool is_complete_or_throw(MPI_Request& request, MPI_Status& status) {
    int done = 0;
    const int code = MPI_Request_get_status(request, &done, &status);
    const int error = code != MPI_SUCCESS ? code : done ? status.MPI_ERROR : MPI_SUCCESS;
    if (error != MPI_SUCCESS) {
        request = MPI_REQUEST_NULL;
        check_mpi(error, "MPI_Request_get_status");
    }
    if (done) check_mpi(MPI_Wait(&request, &status), "MPI_Wait");
    return done != 0;
}

/// A message under way. An abandoned receive is cancelled; an abandoned send is left to MPI. Where this process outlives
/// others, MPI has a copy, which is left to it with a message that is not complete.
class MpiMessage {
public:
    static MpiMessage send(MPI_Comm comm, int peer, int tag, const std::byte* data, std::size_t bytes) {
        const MpiBytes size{bytes};
        MpiMessage m;
        if (outlives_deaths()) {
            m.copy_.reset(new std::byte[bytes]);
            if (bytes > 0) std::memcpy(m.copy_.get(), data, bytes);
            data = m.copy_.get();
        }
        check_mpi(MPI_Isend(data, size.count(), size.type(), peer, tag, comm, &m.request_), "MPI_Isend");
        return m;
    }
    static MpiMessage receive(MPI_Comm comm, int peer, int tag, std::byte* data, std::size_t bytes) {
        const MpiBytes size{bytes};
        MpiMessage m;
        m.is_receive_ = true;
        m.room_ = data;
        if (outlives_deaths()) {
            m.copy_.reset(new std::byte[bytes]);
            data = m.copy_.get();
        }
        check_mpi(MPI_Irecv(data, size.count(), size.type(), peer, tag, comm, &m.request_), "MPI_Irecv");
        return m;
    }

    MpiMessage() = default;
    MpiMessage(MpiMessage&& other) noexcept { *this = std::move(other); }
    MpiMessage& operator=(MpiMessage&& other) noexcept {
        std::swap(request_, other.request_);
        std::swap(is_receive_, other.is_receive_);
        std::swap(room_, other.room_);
        std::swap(copy_, other.copy_);
        return *this;
    }
    ~MpiMessage() {
        if (request_ == MPI_REQUEST_NULL) return;
        if (copy_) {
            static_cast<void>(copy_.release());
            return;
        }
        int finalised = 0;
        MPI_Finalized(&finalised);
        if (finalised) return;
        if (is_receive_) MPI_Cancel(&request_);
        MPI_Request_free(&request_);
    }

    bool test() {
        if (request_ == MPI_REQUEST_NULL) return true;
        if (copy_) return test_copy();
        int done = 0;
        check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
        return done != 0;
    }

private:
    bool test_copy() {
        MPI_Status status{};
        try {
            if (!is_complete_or_throw(request_, status)) return false;
        } catch (...) {
            static_cast<void>(copy_.release());
            throw;
        }
        MPI_Count bytes = 0;
        if (is_receive_) MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
        if (bytes > 0) std::memcpy(room_, copy_.get(), static_cast<std::size_t>(bytes));
        copy_.reset();
        return true;
    }

    MPI_Request request_ = MPI_REQUEST_NULL;
    bool is_receive_ = false;
    std::byte* room_ = nullptr;
    std::unique_ptr<std::byte[]> copy_;
};

}  // namespace hvd::detail

#endif
