#include "backend/cuda/kernels/attention/sm90_prefill_kernel.cuh"

namespace bora::cuda {
extern const PrefillKernel kPrefillBf16D64 = {DType::kBF16, 64, launch_prefill<__nv_bfloat16, 64>};
}  // namespace bora::cuda
