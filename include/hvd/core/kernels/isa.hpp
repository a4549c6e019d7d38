// Which variant of the kernels runs: the best that the processor has, or less when HVD_ISA says so. All variants give
// the same bits.
#pragma once

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hvd::detail {

enum class Isa { portable, avx2 };

/// The best that this processor has.
inline Isa processor_isa() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    unsigned a = 0, b = 0, c = 0, d = 0;
    // F16C by hand: clang 14 does not know it by name. "avx2" includes that the system saves the registers.
    const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1U << 29)) != 0;
    if (has_f16c && __builtin_cpu_supports("avx2")) return Isa::avx2;
#endif
    return Isa::portable;
}

/// The one in use. Tests set it before they start threads.
inline Isa& active_isa() {
    static Isa isa = [] {
        const char* wanted = std::getenv("HVD_ISA");
        const bool lower = wanted != nullptr && std::strcmp(wanted, "portable") == 0;
        return lower ? Isa::portable : processor_isa();
    }();
    return isa;
}

/// Its name, for diagnostics.
inline const char* kernel_isa() { return active_isa() == Isa::avx2 ? "avx2" : "portable"; }

}  // namespace hvd::detail
