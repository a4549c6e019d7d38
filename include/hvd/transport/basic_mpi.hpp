// BasicMpi: the declaration that hvd::Mpi is an alias of, and what its use says where MPI is not enabled.
#pragma once

#include <string_view>

namespace hvd {
namespace detail {
template <class...>
inline constexpr bool mpi_is_off = false;
}

/// Transport over MPI 3.1 or newer. Whether MPI is enabled is part of the type, so that translation units that are
/// built differently still link rightly. Use it by its name `hvd::Mpi`.
template <bool Enabled>
class BasicMpi {
public:
    static constexpr std::string_view name = "mpi";

    template <class... Arguments>
    explicit BasicMpi(const Arguments&...) {
        static_assert(
            detail::mpi_is_off<Arguments...>,
            "hvd: hvd::Mpi is not enabled in this translation unit; define HVD_WITH_MPI and compile with mpicxx, "
            "or use hvd::Local");
    }
};

}  // namespace hvd
