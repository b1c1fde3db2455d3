#include "backend/cuda/kernels/attention/sm90_prefill_kernel.cuh"

namespace bora::cuda {
extern const PrefillKernel kPrefillF16D64 = {DType::kF16, 64, launch_prefill<__half, 64>};
}  // namespace bora::cuda
