#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D96R16 = {DType::kF16, 96, 16, launch_tiles<__half, 96, 1>};
}  // namespace bora::cuda
