#include <cuda_runtime_api.h>

#include <string>

#include "backend/cuda/kernels/common/device_info.h"

namespace bora::cuda {

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
  return info;
}

}  // namespace bora::cuda
