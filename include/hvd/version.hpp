// The library's version, as numbers and as text.
#pragma once

#define HVD_VERSION_MAJOR 0
#define HVD_VERSION_MINOR 1
#define HVD_VERSION_PATCH 0

namespace hvd {

struct Version {
    int major, minor, patch;
};

inline constexpr Version version{HVD_VERSION_MAJOR, HVD_VERSION_MINOR, HVD_VERSION_PATCH};

}  // namespace hvd
