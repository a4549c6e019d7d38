// hvd::Nccl: ranks have a GPU each, and NCCL moves what lies on them. Declared always, defined with HVD_WITH_NCCL.
#pragma once

#include <span>
#include <string_view>

#include <hvd/core/memory.hpp>
#include <hvd/transport/local.hpp>
#include <hvd/transport/mpi.hpp>

#ifdef HVD_WITH_NCCL
#ifndef HVD_WITH_CUDA
#error "hvd: HVD_WITH_NCCL needs HVD_WITH_CUDA as well; define both"
#endif
#include <hvd/transport/nccl_transport.hpp>
#endif

namespace hvd {

/// Transport over NCCL 2.18 or newer, between one GPU per rank: tensors lie on devices. `Bootstrap`, hvd::Mpi or hvd::Local,
/// tells the ranks of each other, and carries what lies on the host. Whether NCCL is enabled is part of the type, so that
/// translation units that are built differently still link rightly; leave it out.
#ifdef HVD_WITH_NCCL
template <class Bootstrap = Mpi, bool Enabled = true>
class Nccl;
#else
template <class Bootstrap = Mpi, bool Enabled = false>
class Nccl;
#endif

namespace detail {
template <class...>
inline constexpr bool nccl_is_off = false;
}

template <class Bootstrap>
class Nccl<Bootstrap, false> {
public:
    static constexpr std::string_view name = "nccl";
    using memory_space = DeviceMemory;

    template <class... Arguments>
    explicit Nccl(const Bootstrap&, const Arguments&...) {
        static_assert(detail::nccl_is_off<Arguments...>,
                      "hvd: hvd::Nccl is not enabled in this translation unit; define HVD_WITH_CUDA and HVD_WITH_NCCL, "
                      "give the compiler CUDA's headers, and link with -lnccl -lcudart");
    }
};

#ifdef HVD_WITH_NCCL
template <class Bootstrap>
class Nccl<Bootstrap, true> : public detail::NcclTransport<Bootstrap> {
public:
    using detail::NcclTransport<Bootstrap>::NcclTransport;
    Nccl subgroup(std::span<const int> members, int id) {
        return Nccl{detail::NcclTransport<Bootstrap>::part(members, id)};
    }

private:
    explicit Nccl(detail::NcclTransport<Bootstrap> transport)
        : detail::NcclTransport<Bootstrap>{std::move(transport)} {}
};
template <class Bootstrap>
Nccl(Bootstrap, NcclOptions = {}) -> Nccl<Bootstrap>;
#endif

}  // namespace hvd
