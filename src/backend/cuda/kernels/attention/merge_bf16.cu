#include "backend/cuda/kernels/attention/merge_kernel.cuh"

namespace bora::cuda {
extern const MergeKernel kMergeBf16 = {DType::kBF16, launch_merge<__nv_bfloat16>};
}  // namespace bora::cuda
