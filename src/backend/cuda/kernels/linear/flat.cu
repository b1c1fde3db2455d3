#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/linear/flat_table.h"
#include "backend/cuda/kernels/linear/launch_parts.h"
#include "backend/cuda/kernels/linear/linear.h"

namespace bora::cuda {
namespace {

using Entries = std::span<const FlatEntry> (*)();
constexpr Entries kFormats[] = {
    flat_bf16,
    flat_f16,
    flat_fp8_bf16,
    flat_fp8_block_bf16,
    flat_int8_g32_bf16,
    flat_int4_g128_bf16,
    flat_int4_g128_zero_bf16,
    flat_int4_g32_bf16,
    flat_int4_g32_zero_bf16,
};

bool same(const LinearFormat& a, const LinearFormat& b) {
  return a.codes == b.codes && a.group == b.group && a.zeros == b.zeros && a.block_scale == b.block_scale;
}

const FlatEntry* find(const LinearWeights& w, const FlatPlan& plan) {
  for (const Entries entries : kFormats) {
    for (const FlatEntry& e : entries()) {
      if (!same(e.format, w.format) || e.f16 != (w.type == Act16::kF16)) break;
      if (e.warps == plan.warps && e.rows == plan.rows16 && e.tokens == plan.tokens8) return &e;
    }
  }
  return nullptr;
}

FlatParams params_of(const LinearWeights& w, const LinearArgs& a, const FlatPlan& plan) {
  const LinearShape shape = linear_shape(w.format, w.n, w.k);
  FlatParams p{};
  p.weights = static_cast<const uint8_t*>(w.packed);
  p.x = a.x;
  p.x_stride = a.x_stride;
  p.out = linear_out(w, a);
  p.row_tile_bytes = int64_t{shape.piece_block[shape.pieces]} * w.format.block_bytes();
  p.row_tiles = shape.row_tiles;
  const int32_t tile_rows = plan.rows16 * plan.cluster * plan.warps / 8;
  p.tiles = (shape.row_tiles + tile_rows - 1) / tile_rows;
  while (1 << p.cluster_log2 < plan.cluster) ++p.cluster_log2;
  p.x_blocks = plan.x_blocks;
  p.x_rows = static_cast<int32_t>(a.m < 8 * plan.tokens8 ? a.m : 8 * plan.tokens8);
  p.x_row_bytes = 8 / plan.cluster * plan.x_blocks * w.format.block_k() * 2 + 16;
  p.x_buffers = plan.x_buffers;
  p.release_lead = plan.release_lead;
  set_pieces(shape, &p);
  return p;
}

}  // namespace

Status linear_flat(const LinearWeights& weights, const LinearArgs& args, const FlatPlan& plan,
                   const DeviceInfo& device, const LaunchOn& on) {
  BORA_TRY(check_linear(weights, args, device));
  if (args.m == 0) return ok_status();
  if (plan.grid <= 0) return unimplemented("linear: no plan fits the device");
  const FlatEntry* entry = find(weights, plan);
  if (entry == nullptr) return no_linear_kernel(weights.format);
  const unsigned passes = static_cast<unsigned>((args.m + 8 * plan.tokens8 - 1) / (8 * plan.tokens8));
  const Grid grid{dim3(static_cast<unsigned>(plan.grid), passes), dim3(static_cast<unsigned>(plan.warps) * 32),
                  static_cast<size_t>(plan.shared_bytes), static_cast<unsigned>(plan.cluster)};
  return entry->launch(params_of(weights, args, plan), grid, on);
}

}  // namespace bora::cuda
