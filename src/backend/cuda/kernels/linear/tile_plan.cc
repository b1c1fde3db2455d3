#include <algorithm>
#include <string>

#include "backend/cuda/kernels/linear/linear.h"
#include "backend/cuda/kernels/linear/tile_params.h"

namespace bora::cuda {
namespace {

int32_t widest(const LinearFormat& format) { return format.codes == Codes::k16 ? 192 : 128; }

// The narrowest tile that holds the rows, else the one that wastes fewest.
int32_t tokens_for(const LinearFormat& format, int64_t m) {
  for (const int32_t tokens : {8, 16, 32, 64, 128, widest(format)}) {
    if (m <= tokens) return tokens;
  }
  const int64_t wide = widest(format);
  const int64_t padded = (m + wide - 1) / wide * wide, narrow = (m + 127) / 128 * 128;
  return static_cast<int32_t>(padded * 9 <= narrow * 10 ? wide : 128);  // a narrow tile costs about a tenth
}

constexpr int64_t kFlagBytes = 4096;

int64_t published_bytes(const TilePlan& plan) {
  return int64_t{plan.grid} * plan.published * kTileRows * plan.tokens * 4;
}

}  // namespace

// Seven pieces a block at 64 tokens.
int64_t linear_workspace_bytes(const DeviceInfo& device) {
  return kFlagBytes + int64_t{device.sms} * 7 * kTileRows * 64 * 4;
}

Result<TilePlan> plan_tile_as(const LinearWeights& weights, int64_t m, const DeviceInfo& device, bool workspace,
                              const TilePlan& wish) {
  if (!device.sm90()) return unimplemented("linear: the tile form needs compute capability 9.0");
  if (m < 1) return invalid_argument("linear: a plan for no rows");
  TilePlan plan;
  plan.tokens = wish.tokens > 0 ? wish.tokens : tokens_for(weights.format, m);
  const LinearShape shape = linear_shape(weights.format, weights.n, weights.k);
  const int64_t token_tiles = (m + plan.tokens - 1) / plan.tokens;
  const int64_t row_tiles = (weights.n + kTileRows - 1) / kTileRows;
  const int64_t tiles = row_tiles * token_tiles;
  if (tiles * shape.pieces > (int64_t{1} << 30)) return unimplemented("linear: too many tiles");
  const int64_t per_sm = tile_blocks_per_sm(weights.format, plan.tokens);
  const int64_t most = std::min<int64_t>(wish.grid > 0 ? wish.grid : device.sms, device.sms * per_sm);
  // Runs of pieces even out what whole tiles leave idle in their last round.
  const int64_t units = tiles * shape.pieces;
  const int64_t run = (units + most - 1) / most;
  plan.shares = workspace && shape.pieces > 1 && tiles < 12 * most && run % shape.pieces != 0;
  if (plan.shares) {
    plan.grid = static_cast<int32_t>(std::min(most, (units + run - 1) / run));
    plan.run = static_cast<int32_t>(units / plan.grid);
    plan.longer_runs = static_cast<int32_t>(units % plan.grid);
    plan.published = static_cast<int32_t>(std::min<int64_t>(shape.pieces - 1, run));
    const int64_t room = linear_workspace_bytes(device) - kFlagBytes;
    if (published_bytes(plan) <= room && plan.grid * 8 <= kFlagBytes) return plan;
    plan.shares = false, plan.run = 0, plan.longer_runs = 0, plan.published = 0;
  }
  const int64_t rounds = (tiles + most - 1) / most;
  plan.grid = static_cast<int32_t>((tiles + rounds - 1) / rounds);
  return plan;
}

LinearPlan plan_linear(const LinearWeights& weights, int64_t m, const DeviceInfo& device, bool workspace) {
  LinearPlan plan;
  if (m > 8) {
    const Result<TilePlan> tile = plan_tile_as(weights, m, device, workspace, {});
    // Short of a workspace a few rows would leave most of the device idle.
    if (tile.ok() && (workspace || m > 64)) {
      plan.tile = *tile;
      return plan;
    }
  }
  plan.flat = plan_flat(weights, m, device);
  return plan;
}

}  // namespace bora::cuda
