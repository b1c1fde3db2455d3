#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileF16D128R16 = {DType::kF16, 128, 16, 90, launch_tiles<__half, 128, 1, true>};
}  // namespace bora::cuda
