#include "backend/cuda/kernels/attention/sm90_prefill_kernel.cuh"

namespace bora::cuda {
extern const PrefillKernel kPrefillBf16D128 = {DType::kBF16, 128, launch_prefill<__nv_bfloat16, 128>};
}  // namespace bora::cuda
