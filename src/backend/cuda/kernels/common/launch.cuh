// Launching a kernel with or without programmatic dependence; errors as Status with the kernel's name.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "backend/cuda/kernels/common/stream.h"
#include "base/status.h"

namespace bora::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;  // dynamic shared memory
  unsigned cluster = 1;     // blocks a cluster along x
};

inline Status launch_error(const char* kernel, cudaError_t error) {
  if (error == cudaSuccess) return ok_status();
  return internal_error(std::string(kernel) + ": launch failed: " + cudaGetErrorString(error));
}

// Raises the limit of dynamic shared memory when needed (a host-side attribute of the function; cheap and
// idempotent).
template <typename... Params, typename... Args>
Status launch(const char* name, void (*kernel)(Params...), const Grid& grid, const LaunchOn& on, Args&&... args) {
  if (grid.shared_bytes > 48 * 1024) {
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(grid.shared_bytes));
    if (error != cudaSuccess) return launch_error(name, error);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(on.stream);
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (on.dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = grid.cluster;
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  config.attrs = attributes;
  config.numAttrs = count;
  return launch_error(name, cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...));
}

}  // namespace bora::cuda
