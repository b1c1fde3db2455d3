// The only vendor notion host headers of kernels carry: a stream, as the opaque pointer the runtime and the driver
// share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bora::cuda {

using Stream = void*;  // a cudaStream_t / CUstream; null = the default stream

// How a launch joins its stream. `dependent` = programmatic dependent launch: the kernel may start before its
// predecessor has ended, loads only what no kernel of the stream writes (weights), and waits before everything else.
// Every kernel of a stream that uses it waits, also those that read nothing of their predecessor.
struct LaunchOn {
  Stream stream = nullptr;
  bool dependent = false;
};

}  // namespace bora::cuda
