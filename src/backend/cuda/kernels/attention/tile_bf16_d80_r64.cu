#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D80R64 = {DType::kBF16, 80, 64, 80, launch_tiles<__nv_bfloat16, 80, 4, false>};
}  // namespace bora::cuda
