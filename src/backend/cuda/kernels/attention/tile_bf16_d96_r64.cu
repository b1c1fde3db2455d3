#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D96R64 = {DType::kBF16, 96, 64, 80, launch_tiles<__nv_bfloat16, 96, 4, false>};
}  // namespace bora::cuda
