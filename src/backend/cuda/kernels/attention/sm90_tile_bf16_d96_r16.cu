#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileBf16D96R16 = {DType::kBF16, 96, 16, 90, launch_tiles<__nv_bfloat16, 96, 1, true>};
}  // namespace bora::cuda
