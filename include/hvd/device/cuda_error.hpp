// Calls of the CUDA runtime, and what their failure says. Needs CUDA's headers; plain C++ otherwise.
#pragma once

#ifdef HVD_WITH_CUDA

#include <cuda_runtime_api.h>

#include <string>

#include <hvd/core/error.hpp>

namespace hvd::device {

/// Throws TransportError when a call of the CUDA runtime has failed.
inline void check(cudaError_t code, const char* call) {
    if (code == cudaSuccess) return;
    cudaGetLastError();  // so that the next call does not report this one again
    throw TransportError{"hvd: " + std::string{call} + " failed: " + cudaGetErrorString(code) +
                         "; look at the device with nvidia-smi"};
}

/// How many devices this process can use: 0 without a driver, too.
inline int count() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess) return devices;
    cudaGetLastError();
    return 0;
}

}  // namespace hvd::device

#endif
