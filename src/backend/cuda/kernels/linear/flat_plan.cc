#include <algorithm>
#include <string>

#include "backend/cuda/kernels/linear/flat_params.h"
#include "backend/cuda/kernels/linear/linear.h"

namespace bora::cuda {
namespace {

int32_t token_tiles(int64_t m) { return m <= 8 ? 1 : m <= 16 ? 2 : m <= 32 ? 4 : 8; }

int32_t longest_piece(const LinearShape& shape) {
  int32_t longest = 0;
  for (int32_t i = 0; i < shape.pieces; ++i)
    longest = std::max(longest, shape.piece_block[i + 1] - shape.piece_block[i]);
  return longest;
}

// The cuts that exist as kernels.
struct Cut {
  int32_t warps, rows16, tokens8;
};
constexpr Cut kCuts[] = {{8, 1, 1},  {8, 2, 1},  {16, 1, 1}, {16, 2, 1}, {24, 1, 1}, {8, 1, 2}, {8, 2, 2},
                         {16, 1, 2}, {16, 2, 2}, {8, 2, 4},  {16, 1, 4}, {8, 2, 8},  {16, 1, 8}};

bool is_compiled(const FlatPlan& p) {
  for (const Cut& c : kCuts) {
    if (c.warps == p.warps && c.rows16 == p.rows16 && c.tokens8 == p.tokens8) return true;
  }
  return false;
}

int32_t clusters_at_once(const DeviceInfo& device, int32_t size) {
  const int32_t log2 = size == 8 ? 3 : size / 2;
  return std::max(1, device.clusters[log2] > 0 ? device.clusters[log2] : device.sms * 3 / 4 / size);
}

Status misaligned(const char* what) {
  return invalid_argument(std::string("linear: ") + what + " is null or misaligned");
}

bool aligned(const void* p, uintptr_t to) { return p != nullptr && reinterpret_cast<uintptr_t>(p) % to == 0; }

}  // namespace

Result<FlatPlan> plan_flat_as(const LinearWeights& weights, int64_t m, const DeviceInfo& device,
                              const FlatPlan& wish) {
  FlatPlan plan = wish;
  const LinearShape shape = linear_shape(weights.format, weights.n, weights.k);
  const int64_t pass = std::clamp<int64_t>(m, 1, 64);
  plan.tokens8 = token_tiles(pass);
  if (plan.cluster > 1 && !device.sm90()) return unimplemented("linear: clusters need compute capability 9.0");
  if (!is_compiled(plan)) return unimplemented("linear: no such cut");
  const int64_t fixed = flat_ring_bytes(weights.format, plan.warps, plan.rows16) +
                        flat_sum_bytes(plan.warps, plan.rows16, plan.tokens8);
  const int64_t x_rows = std::min<int64_t>(pass, 8 * plan.tokens8);
  const int64_t pieces = 8 / plan.cluster;
  const int64_t block_bytes = int64_t{2} * weights.format.block_k();
  const int64_t limit = (device.shared_bytes_block + 1024) / plan.per_sm - 1024;  // the device keeps 1 KB a block
  const int64_t room = (limit - fixed) / x_rows;                                  // of one row of x
  const int32_t longest = longest_piece(shape);
  plan.x_buffers = room - 16 >= pieces * longest * block_bytes ? 1 : 2;
  const int64_t fit = (room / plan.x_buffers - 16) / (pieces * block_bytes);
  if (room < 32 || fit < 1) {
    return unimplemented("linear: " + std::to_string(x_rows) + " rows in clusters of " +
                         std::to_string(plan.cluster) + " do not fit the shared memory");
  }
  const int32_t parts = static_cast<int32_t>((longest + fit - 1) / fit);
  plan.x_blocks = (longest + parts - 1) / parts;
  plan.shared_bytes = fixed + x_rows * plan.x_buffers * (pieces * plan.x_blocks * block_bytes + 16);
  const int32_t tile_rows = plan.rows16 * plan.cluster * plan.warps / 8;
  const int32_t tiles = (shape.row_tiles + tile_rows - 1) / tile_rows;
  const int32_t clusters = clusters_at_once(device, plan.cluster) * plan.per_sm;
  const int32_t rounds = (tiles + clusters - 1) / clusters;
  if (plan.grid == 0) plan.grid = (tiles + rounds - 1) / rounds * plan.cluster;
  plan.grid = std::min(plan.grid, tiles * plan.cluster) / plan.cluster * plan.cluster;
  return plan;
}

FlatPlan plan_flat(const LinearWeights& weights, int64_t m, const DeviceInfo& device) {
  // What was fastest on an H200 by weight bits, token tiles and height of the matrix; the last of a list always fits
  // there.
  struct Choice {
    int32_t tokens8, bits;  // bits 0 = any
    bool tall;              // only for 1024 row tiles and more
    int32_t warps, rows16, cluster, per_sm;
  };
  constexpr Choice kChoices[] = {
      {1, 16, true, 8, 2, 1, 1},   {1, 16, false, 8, 1, 1, 1}, {1, 8, false, 8, 2, 1, 1}, {1, 4, false, 8, 2, 1, 2},
      {1, 4, false, 8, 2, 1, 1},   {2, 4, true, 8, 1, 8, 2},   {2, 4, false, 8, 2, 2, 1}, {2, 8, false, 8, 2, 2, 1},
      {2, 16, false, 16, 1, 2, 1}, {4, 0, true, 8, 2, 4, 1},   {4, 0, false, 8, 2, 8, 1}, {4, 0, false, 16, 1, 8, 1},
      {8, 8, false, 16, 1, 8, 1},  {8, 0, false, 8, 2, 8, 1},  {1, 0, false, 8, 1, 1, 1}, {2, 0, false, 8, 1, 1, 1},
      {2, 0, false, 8, 1, 8, 1},   {4, 0, false, 8, 2, 1, 1},  {8, 0, false, 8, 2, 1, 1},
  };
  const int32_t tokens8 = token_tiles(std::clamp<int64_t>(m, 1, 64));
  const bool tall = weights.n >= 1024 * 16;
  for (const Choice& c : kChoices) {
    if (c.tokens8 != tokens8 || (c.bits != 0 && c.bits != weights.format.bits()) || (c.tall && !tall)) continue;
    FlatPlan wish;
    wish.warps = c.warps, wish.rows16 = c.rows16, wish.cluster = c.cluster, wish.per_sm = c.per_sm,
    wish.release_lead = 2;
    const Result<FlatPlan> plan = plan_flat_as(weights, m, device, wish);
    if (plan.ok()) return *plan;
  }
  return {};
}

Status check_linear(const LinearWeights& w, const LinearArgs& a, const DeviceInfo& device) {
  if (!device.portable()) {
    return unimplemented("linear: compute capability " + std::to_string(device.major) + "." +
                         std::to_string(device.minor) + ", need 8.0 or later");
  }
  if (w.n <= 0 || w.k <= 0 || w.n > (1 << 28) || w.k > (1 << 28)) {
    return invalid_argument("linear: weights [" + std::to_string(w.n) + ", " + std::to_string(w.k) + "]");
  }
  if (a.m < 0 || a.m > 65535 * 64) return invalid_argument("linear: " + std::to_string(a.m) + " rows");
  if (a.m == 0) return ok_status();
  if (!aligned(w.packed, 16)) return misaligned("the weight");
  if (!aligned(a.x, 16) || a.x_stride % 8 != 0) return misaligned("x");
  if (!aligned(a.y, 2)) return misaligned("y");
  if (a.x_stride < w.k) return invalid_argument("linear: stride of x is shorter than its rows");
  const int64_t out = a.gate == Gate::kNone ? w.n : w.n / 2;
  if (a.y_stride < out) return invalid_argument("linear: stride of y is shorter than its rows");
  if (a.residual != nullptr && a.residual_stride < out) {
    return invalid_argument("linear: stride of the residual is shorter than its rows");
  }
  if (a.gate != Gate::kNone && (w.n % 16 != 0 || a.residual != nullptr)) {
    return invalid_argument("linear: a gated linear has rows in multiples of 16 and no residual");
  }
  return ok_status();
}

}  // namespace bora::cuda
