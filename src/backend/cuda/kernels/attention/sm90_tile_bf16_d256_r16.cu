#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileBf16D256R16 = {DType::kBF16, 256, 16, 90, launch_tiles<__nv_bfloat16, 256, 1, true>};
}  // namespace bora::cuda
