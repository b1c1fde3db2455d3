#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileF16D64R16 = {DType::kF16, 64, 16, 90, launch_tiles<__half, 64, 1, true>};
}  // namespace bora::cuda
