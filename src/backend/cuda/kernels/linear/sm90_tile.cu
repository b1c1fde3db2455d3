#include <cuda_runtime_api.h>

#include <string>

#include "backend/cuda/kernels/linear/launch_parts.h"
#include "backend/cuda/kernels/linear/linear.h"
#include "backend/cuda/kernels/linear/sm90_table.h"
#include "backend/cuda/kernels/linear/tile_params.h"

namespace bora::cuda {
namespace {

using Entries = std::span<const TileEntry> (*)();
constexpr Entries kFormats[] = {
    tile_bf16,
    tile_f16,
    tile_fp8_bf16,
    tile_fp8_block_bf16,
    tile_int8_g32_bf16,
    tile_int4_g128_bf16,
    tile_int4_g128_zero_bf16,
    tile_int4_g32_bf16,
    tile_int4_g32_zero_bf16,
};

bool same(const LinearFormat& a, const LinearFormat& b) {
  return a.codes == b.codes && a.group == b.group && a.zeros == b.zeros && a.block_scale == b.block_scale;
}

const TileEntry* find(const LinearWeights& w, int32_t tokens) {
  for (const Entries entries : kFormats) {
    for (const TileEntry& e : entries()) {
      if (!same(e.format, w.format) || e.f16 != (w.type == Act16::kF16)) break;
      if (e.tokens == tokens) return &e;
    }
  }
  return nullptr;
}

// The driver's encoder, found through the runtime, so that nothing links the driver.
Status encode_x(const LinearWeights& w, const LinearArgs& a, int32_t tokens, CUtensorMap* map) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    return unimplemented("linear: the driver has no tensor maps; use the flat form");
  }
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(w.k), static_cast<cuuint64_t>(a.m)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(a.x_stride) * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(tokens)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult encoded =
      encode(map, w.type == Act16::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
             const_cast<void*>(a.x), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (encoded == CUDA_SUCCESS) return ok_status();
  return internal_error("linear: tensor map of x: driver error " + std::to_string(static_cast<int>(encoded)));
}

bool takes_pairs(const LinearWeights& w, const LinearArgs& a) {
  const auto even = [](const void* p, int64_t stride) {
    return stride % 2 == 0 && reinterpret_cast<uintptr_t>(p) % 4 == 0;
  };
  return w.n % 2 == 0 && even(a.y, a.y_stride) && (a.residual == nullptr || even(a.residual, a.residual_stride));
}

TileParams params_of(const LinearWeights& w, const LinearArgs& a, const TilePlan& plan) {
  const LinearShape shape = linear_shape(w.format, w.n, w.k);
  TileParams p{};
  p.weights = static_cast<const uint8_t*>(w.packed);
  p.flags = static_cast<uint32_t*>(a.workspace);
  p.workspace = reinterpret_cast<float4*>(static_cast<uint8_t*>(a.workspace) + 4096);
  p.out = linear_out(w, a);
  p.row_tile_bytes = int64_t{shape.piece_block[shape.pieces]} * w.format.block_bytes();
  p.row_tiles = shape.row_tiles;
  p.token_tiles = static_cast<int32_t>((a.m + plan.tokens - 1) / plan.tokens);
  p.tiles = static_cast<int32_t>((w.n + kTileRows - 1) / kTileRows) * p.token_tiles;
  p.tile_step = plan.shares ? 0 : plan.grid;
  p.run = plan.run;
  p.longer_runs = plan.longer_runs;
  p.published = plan.published;
  p.pairs = takes_pairs(w, a) ? 1 : 0;
  set_pieces(shape, &p);
  return p;
}

}  // namespace

Status linear_tile(const LinearWeights& weights, const LinearArgs& args, const TilePlan& plan,
                   const DeviceInfo& device, const LaunchOn& on) {
  BORA_TRY(check_linear(weights, args, device));
  if (args.m == 0) return ok_status();
  if (plan.grid <= 0 || !device.sm90()) return unimplemented("linear: no plan fits the device");
  if (plan.shares && args.workspace == nullptr) return invalid_argument("linear: this plan needs a workspace");
  if (plan.shares && args.m > plan.tokens) {
    // Runs were dealt for the tiles of the planned number of rows.
    const LinearShape shape = linear_shape(weights.format, weights.n, weights.k);
    const int64_t token_tiles = (args.m + plan.tokens - 1) / plan.tokens;
    const int64_t units = (weights.n + kTileRows - 1) / kTileRows * token_tiles * shape.pieces;
    if (units != int64_t{plan.grid} * plan.run + plan.longer_runs) {
      return invalid_argument("linear: the plan is for another number of rows");
    }
  }
  const TileEntry* entry = find(weights, plan.tokens);
  if (entry == nullptr) return no_linear_kernel(weights.format);
  TileParams params = params_of(weights, args, plan);
  BORA_TRY(encode_x(weights, args, plan.tokens, &params.x_map));
  const Grid grid{dim3(static_cast<unsigned>(plan.grid)), dim3(static_cast<unsigned>(tile_threads(plan.tokens))),
                  static_cast<size_t>(tile_shared_bytes(weights.format, plan.tokens)), 1};
  return entry->launch(params, grid, on);
}

Status linear(const LinearWeights& weights, const LinearArgs& args, const LinearPlan& plan, const DeviceInfo& device,
              const LaunchOn& on) {
  if (plan.tile.grid > 0) return linear_tile(weights, args, plan.tile, device, on);
  return linear_flat(weights, args, plan.flat, device, on);
}

}  // namespace bora::cuda
