#include "backend/cuda/kernels/linear/flat.cuh"

namespace bora::cuda {

std::span<const FlatEntry> flat_f16() { return kFlatEntries<FormatOf<Codes::k16>, __half>; }

}  // namespace bora::cuda
