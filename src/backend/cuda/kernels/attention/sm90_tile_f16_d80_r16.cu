#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileF16D80R16 = {DType::kF16, 80, 16, 90, launch_tiles<__half, 80, 1, true>};
}  // namespace bora::cuda
