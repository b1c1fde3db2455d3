#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D64R16 = {DType::kBF16, 64, 16, 80, launch_tiles<__nv_bfloat16, 64, 1, false>};
}  // namespace bora::cuda
