#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileF16D256R16 = {DType::kF16, 256, 16, 90, launch_tiles<__half, 256, 1, true>};
}  // namespace bora::cuda
