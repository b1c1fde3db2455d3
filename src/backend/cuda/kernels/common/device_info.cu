#include <cuda_runtime_api.h>

#include <string>

#include "backend/cuda/kernels/common/device_info.h"

namespace bora::cuda {
namespace {

__global__ void probe_kernel() {}

// Clusters of `size` blocks that the device holds at once when a block fills a multiprocessor. Clusters stay inside a
// group of multiprocessors, so this is less than their number over the size. 0 when it cannot be told.
int32_t clusters_of(unsigned size, int32_t shared_bytes) {
  if (cudaFuncSetAttribute(probe_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) != cudaSuccess)
    return 0;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(size);
  config.blockDim = dim3(256);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = size;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  return cudaOccupancyMaxActiveClusters(&count, probe_kernel, &config) == cudaSuccess ? count : 0;
}

}  // namespace

Result<DeviceInfo> query_device(int32_t ordinal) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return unavailable(std::string("no CUDA device: ") + cudaGetErrorString(error));
  if (ordinal < 0 || ordinal >= count) {
    return unavailable("CUDA device " + std::to_string(ordinal) + " of " + std::to_string(count) + " does not exist");
  }
  cudaDeviceProp prop{};
  error = cudaGetDeviceProperties(&prop, ordinal);
  if (error != cudaSuccess) return unavailable(std::string("CUDA device query: ") + cudaGetErrorString(error));
  DeviceInfo info;
  info.ordinal = ordinal;
  info.major = prop.major;
  info.minor = prop.minor;
  info.sms = prop.multiProcessorCount;
  info.l2_bytes = prop.l2CacheSize;
  info.shared_bytes_block = static_cast<int64_t>(prop.sharedMemPerBlockOptin);
  info.memory_bytes = static_cast<int64_t>(prop.totalGlobalMem);
  info.clusters[0] = info.sms;
  for (int32_t i = 1; i < 4 && info.sm90(); ++i) {
    info.clusters[i] = clusters_of(1u << i, static_cast<int32_t>(info.shared_bytes_block));
  }
  return info;
}

}  // namespace bora::cuda
