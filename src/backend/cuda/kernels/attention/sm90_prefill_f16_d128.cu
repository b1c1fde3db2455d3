#include "backend/cuda/kernels/attention/sm90_prefill_kernel.cuh"

namespace bora::cuda {
extern const PrefillKernel kPrefillF16D128 = {DType::kF16, 128, launch_prefill<__half, 128>};
}  // namespace bora::cuda
