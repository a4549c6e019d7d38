// Memory spaces: where the elements of a tensor live.
#pragma once

namespace hvd {

/// Ordinary memory, readable and writable by the processor.
struct HostMemory {};

/// Memory of an accelerator; only transports and kernels of that device may touch it.
struct DeviceMemory {};

}  // namespace hvd
