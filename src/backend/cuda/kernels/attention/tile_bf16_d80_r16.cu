#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D80R16 = {DType::kBF16, 80, 16, 80, launch_tiles<__nv_bfloat16, 80, 1, false>};
}  // namespace bora::cuda
