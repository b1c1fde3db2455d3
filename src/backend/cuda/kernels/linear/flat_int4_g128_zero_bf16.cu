#include "backend/cuda/kernels/linear/flat.cuh"

namespace bora::cuda {

std::span<const FlatEntry> flat_int4_g128_zero_bf16() {
  return kFlatEntries<FormatOf<Codes::kInt4, 128, true>, __nv_bfloat16>;
}

}  // namespace bora::cuda
