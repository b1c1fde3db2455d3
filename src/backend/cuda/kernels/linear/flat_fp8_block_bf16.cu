#include "backend/cuda/kernels/linear/flat.cuh"

namespace bora::cuda {

std::span<const FlatEntry> flat_fp8_block_bf16() {
  return kFlatEntries<FormatOf<Codes::kFp8, 0, false, true>, __nv_bfloat16>;
}

}  // namespace bora::cuda
