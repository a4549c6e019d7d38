// ApartTransport: threads that keep to themselves as processes do. Memory is in common only where it was shared on purpose.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hvd/transport/local.hpp>

namespace hvd::testing {

class ApartTransport : public Local {
public:
    static constexpr std::string_view name = "apart";
    static constexpr bool has_common_addresses = false;

    explicit ApartTransport(Local local) : Local{std::move(local)} {}

    std::shared_ptr<hvd::detail::SharedRegion> share(std::vector<std::size_t> sizes, std::string& reason) {
        auto region = Local::share(std::move(sizes), reason);
        worker()->add_region(region);
        return region;
    }
    ApartTransport subgroup(std::span<const int> members, int id) {
        return ApartTransport{Local::subgroup(members, id)};
    }
};

static_assert(Transport<ApartTransport>);

}  // namespace hvd::testing
