// y = act(x * W^T * channel scale + bias) + residual for 16-bit activations and packed weights of any LinearFormat.
//
// A row of y has the same bits whatever the number of rows, the form chosen and the device's size: sums run over the
// canonical pieces of K, each in ascending k16 steps of the tensor core from zero, pieces are added in ascending
// order; INT4 and INT8 sum a group exactly scaled in float32, FP8 is promoted every 128 columns.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/common/device_info.h"
#include "backend/cuda/kernels/common/stream.h"
#include "backend/cuda/kernels/linear/format.h"
#include "base/status.h"

namespace bora::cuda {

enum class Act16 : uint8_t {
  kBf16,
  kF16
};  // dtype of x, y, bias, residual (and of the weights when they are 16 bits)

enum class Gate : uint8_t { kNone, kSilu };  // kSilu: weights packed in swiglu_order; y is [m, n / 2]

struct LinearWeights {
  LinearFormat format;
  Act16 type = Act16::kBf16;
  int64_t n = 0, k = 0;
  const void* packed = nullptr;          // device, 16-byte aligned, packed_bytes(format, n, k)
  const float* channel_scale = nullptr;  // device [n] in packed order, or null
  const void* bias = nullptr;            // device [n] in packed order, or null
};

// Device pointers; strides in elements. x rows and pointer are 16-byte aligned, y and residual 4-byte.
// residual may be y. Nothing else may overlap.
struct LinearArgs {
  const void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
  const void* residual = nullptr;
  int64_t residual_stride = 0;
  int64_t m = 0;
  Gate gate = Gate::kNone;
  // Device memory for partial sums, 16-byte aligned: linear_workspace_bytes(device), zeroed once and then used by one
  // stream's linears only. Null: forms that need it are not chosen.
  void* workspace = nullptr;
};

// How the flat form (up to 64 rows a pass) is cut. Any choice gives the same bits.
struct FlatPlan {
  int32_t warps = 8;     // a block: 8, 16 or 24
  int32_t rows16 = 1;    // row tiles a warp: 1 or 2
  int32_t tokens8 = 1;   // token tiles of 8: 1, 2, 4 or 8
  int32_t cluster = 1;   // blocks that share the pieces of a tile: 1, 2, 4 or 8 (above 1: sm_90)
  int32_t per_sm = 1;    // blocks meant to run on one multiprocessor at once
  int32_t grid = 0;      // blocks
  int32_t x_blocks = 0;  // blocks of x a piece that are held at once
  int32_t x_buffers = 1;
  int32_t release_lead = 0;  // loads still to issue when dependents may start
  int64_t shared_bytes = 0;
};

// A pure function of its arguments. m > 64 is planned as passes of 64 rows.
FlatPlan plan_flat(const LinearWeights& weights, int64_t m, const DeviceInfo& device);
// The same with cut given: fields of `wish` that are not 0 are kept. Fails by name when it does not fit the device.
Result<FlatPlan> plan_flat_as(const LinearWeights& weights, int64_t m, const DeviceInfo& device,
                              const FlatPlan& wish);

// How the tile form (sm_90a, any number of rows) is cut. Any choice gives the same bits as the flat form.
struct TilePlan {
  int32_t tokens = 0;   // of a tile: 8, 16, 32, 64, 128 or 192 (128 and more: prefill)
  int32_t grid = 0;     // blocks; 0 = no plan
  bool shares = false;  // tiles are shared between blocks piece by piece (needs the workspace)
  int32_t run = 0;      // units (tile, piece) a block, the first longer_runs one more; shares only
  int32_t longer_runs = 0;
  int32_t published = 0;  // pieces that a block may publish
};

int64_t linear_workspace_bytes(const DeviceInfo& device);

// A pure function of its arguments. `wish.tokens` and `wish.grid` are kept when not 0. Fails by name.
Result<TilePlan> plan_tile_as(const LinearWeights& weights, int64_t m, const DeviceInfo& device, bool workspace,
                              const TilePlan& wish);

// The form that serves m rows best on this device.
struct LinearPlan {
  TilePlan tile;  // used when tile.grid > 0
  FlatPlan flat;
};
LinearPlan plan_linear(const LinearWeights& weights, int64_t m, const DeviceInfo& device, bool workspace);

Status check_linear(const LinearWeights& weights, const LinearArgs& args, const DeviceInfo& device);

// Any number of rows. m = 0 launches nothing.
Status linear_flat(const LinearWeights& weights, const LinearArgs& args, const FlatPlan& plan,
                   const DeviceInfo& device, const LaunchOn& on);

Status linear_tile(const LinearWeights& weights, const LinearArgs& args, const TilePlan& plan,
                   const DeviceInfo& device, const LaunchOn& on);
// REQUIRES: the plan was made for at least as many rows of these weights, with the same device and workspace or none.
Status linear(const LinearWeights& weights, const LinearArgs& args, const LinearPlan& plan, const DeviceInfo& device,
              const LaunchOn& on);

}  // namespace bora::cuda
