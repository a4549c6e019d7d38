// MPI's own allreduce as an operation that can be left. Needs MPI.
#pragma once

#ifdef HVD_WITH_MPI

#include <mpi.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include <hvd/core/kernels.hpp>
#include <hvd/transport/mpi_process.hpp>

namespace hvd::detail {

template <class E>
MPI_Datatype mpi_builtin_type() {
    if constexpr (std::same_as<E, float>) return MPI_FLOAT;
    else if constexpr (std::same_as<E, double>) return MPI_DOUBLE;
    else if constexpr (std::integral<E> && !std::same_as<E, bool>) {
        constexpr bool s = std::is_signed_v<E>;
        if constexpr (sizeof(E) == 1) return s ? MPI_INT8_T : MPI_UINT8_T;
        else if constexpr (sizeof(E) == 2) return s ? MPI_INT16_T : MPI_UINT16_T;
        else if constexpr (sizeof(E) == 4) return s ? MPI_INT32_T : MPI_UINT32_T;
        else return s ? MPI_INT64_T : MPI_UINT64_T;
    } else {
        return MPI_DATATYPE_NULL;
    }
}

/// MPI's own operation, where it means the same: its MIN and MAX do not promise what becomes of NaN.
template <class E, class Op>
MPI_Op mpi_builtin_op() {
    if (mpi_builtin_type<E>() == MPI_DATATYPE_NULL) return MPI_OP_NULL;
    if constexpr (std::same_as<Op, Sum>) return MPI_SUM;
    else if constexpr (std::same_as<Op, Product>) return MPI_PROD;
    else if constexpr (std::same_as<Op, Min> && std::integral<E>) return MPI_MIN;
    else if constexpr (std::same_as<Op, Max> && std::integral<E>) return MPI_MAX;
    else return MPI_OP_NULL;
}

template <class E, class Op>
void mpi_user_op(void* in, void* inout, int* count, MPI_Datatype*) {
    auto* out = static_cast<E*>(inout);
    reduce_pair(out, static_cast<const E*>(in), out, static_cast<std::size_t>(*count), Op{});
}

/// MPI_Iallreduce in place, piece by piece where int cannot count the elements.
template <class E, class Op>
class MpiAllreduce final : public Operation {
public:
    MpiAllreduce(MPI_Comm comm, std::span<E> data) : comm_{comm}, data_{data} {
        if (outlives_deaths())
            throw UsageError{
                "hvd: Native is MPI's own allreduce, which does not come through the death of a rank; choose another "
                "algorithm for this job, or let it be started again: HVD_ELASTIC_ENGINE=restart"};
        op_ = mpi_builtin_op<E, Op>();
        type_ = mpi_builtin_type<E>();
        if (op_ != MPI_OP_NULL) return;
        check_mpi(MPI_Op_create(&mpi_user_op<E, Op>, 1, &op_), "MPI_Op_create");
        made_op_ = true;
        check_mpi(MPI_Type_contiguous(static_cast<int>(sizeof(E)), MPI_BYTE, &type_), "MPI_Type_contiguous");
        check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    }
    ~MpiAllreduce() override {
        if (!made_op_) return;
        MPI_Op_free(&op_);
        MPI_Type_free(&type_);
    }

    bool advance() override {
        for (;;) {
            if (request_ != MPI_REQUEST_NULL) {
                int done = 0;
                check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
                if (!done) return false;
            }
            if (data_.empty()) return true;
            const std::size_t n = data_.size() < most ? data_.size() : most;
            check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data_.data(), static_cast<int>(n), type_, op_, comm_, &request_),
                      "MPI_Iallreduce");
            data_ = data_.subspan(n);
        }
    }

private:
    static constexpr std::size_t most = std::size_t{1} << 30;

    MPI_Comm comm_;
    std::span<E> data_;
    MPI_Op op_ = MPI_OP_NULL;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    MPI_Request request_ = MPI_REQUEST_NULL;
    bool made_op_ = false;
};

}  // namespace hvd::detail

#endif
