#include "backend/cuda/kernels/attention/merge_kernel.cuh"

namespace bora::cuda {
extern const MergeKernel kMergeF16 = {DType::kF16, launch_merge<__half>};
}  // namespace bora::cuda
