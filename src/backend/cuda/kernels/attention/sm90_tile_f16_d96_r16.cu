#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileF16D96R16 = {DType::kF16, 96, 16, 90, launch_tiles<__half, 96, 1, true>};
}  // namespace bora::cuda
