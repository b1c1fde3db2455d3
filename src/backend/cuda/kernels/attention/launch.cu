#include <string>

#include "backend/cuda/kernels/attention/attention.h"
#include "backend/cuda/kernels/attention/tile_params.h"

namespace bora::cuda {

// One compiled kernel a file; this list is all there is.
extern const TileKernel kTileBf16D64R16;
extern const TileKernel kTileBf16D64R64;
extern const TileKernel kTileBf16D80R16;
extern const TileKernel kTileBf16D80R64;
extern const TileKernel kTileBf16D96R16;
extern const TileKernel kTileBf16D96R64;
extern const TileKernel kTileBf16D128R16;
extern const TileKernel kTileBf16D128R64;
extern const TileKernel kTileBf16D256R16;
extern const TileKernel kTileBf16D256R32;
extern const TileKernel kTileF16D64R16;
extern const TileKernel kTileF16D64R64;
extern const TileKernel kTileF16D80R16;
extern const TileKernel kTileF16D80R64;
extern const TileKernel kTileF16D96R16;
extern const TileKernel kTileF16D96R64;
extern const TileKernel kTileF16D128R16;
extern const TileKernel kTileF16D128R64;
extern const TileKernel kTileF16D256R16;
extern const TileKernel kTileF16D256R32;
extern const TileKernel kSm90TileBf16D64R16;
extern const TileKernel kSm90TileBf16D80R16;
extern const TileKernel kSm90TileBf16D96R16;
extern const TileKernel kSm90TileBf16D128R16;
extern const TileKernel kSm90TileBf16D256R16;
extern const TileKernel kSm90TileF16D64R16;
extern const TileKernel kSm90TileF16D80R16;
extern const TileKernel kSm90TileF16D96R16;
extern const TileKernel kSm90TileF16D128R16;
extern const TileKernel kSm90TileF16D256R16;
extern const MergeKernel kMergeBf16;
extern const MergeKernel kMergeF16;
extern const PrefillKernel kPrefillBf16D64;
extern const PrefillKernel kPrefillBf16D128;
extern const PrefillKernel kPrefillF16D64;
extern const PrefillKernel kPrefillF16D128;

namespace {

// Device-specific kernels come first: the first record that fits is taken.
const TileKernel* const kTileKernels[] = {
    &kSm90TileBf16D64R16, &kSm90TileBf16D80R16, &kSm90TileBf16D96R16, &kSm90TileBf16D128R16, &kSm90TileBf16D256R16,
    &kSm90TileF16D64R16,  &kSm90TileF16D80R16,  &kSm90TileF16D96R16,  &kSm90TileF16D128R16,  &kSm90TileF16D256R16,
    &kTileBf16D64R16,     &kTileBf16D64R64,     &kTileBf16D80R16,     &kTileBf16D80R64,      &kTileBf16D96R16,
    &kTileBf16D96R64,     &kTileBf16D128R16,    &kTileBf16D128R64,    &kTileBf16D256R16,     &kTileBf16D256R32,
    &kTileF16D64R16,      &kTileF16D64R64,      &kTileF16D80R16,      &kTileF16D80R64,       &kTileF16D96R16,
    &kTileF16D96R64,      &kTileF16D128R16,     &kTileF16D128R64,     &kTileF16D256R16,      &kTileF16D256R32,
};

const MergeKernel* const kMergeKernels[] = {
    &kMergeBf16,
    &kMergeF16,
};

const PrefillKernel* const kPrefillKernels[] = {
    &kPrefillBf16D64,
    &kPrefillBf16D128,
    &kPrefillF16D64,
    &kPrefillF16D128,
};

constexpr float kLog2E = 1.4426950408889634f;

bool aligned16(const void* p) { return (reinterpret_cast<uintptr_t>(p) & 15) == 0; }

Status check_shape(const AttentionArgs& a) {
  if (a.kv_heads < 1 || a.q_heads < a.kv_heads || a.q_heads % a.kv_heads != 0) {
    return invalid_argument("attention: " + std::to_string(a.q_heads) + " query heads over " +
                            std::to_string(a.kv_heads) + " kv heads");
  }
  if (a.block_tokens < 16 || (a.block_tokens & (a.block_tokens - 1)) != 0) {
    return invalid_argument("attention: blocks of " + std::to_string(a.block_tokens) +
                            " tokens; a power of two from 16 is needed");
  }
  if (!(a.scale > 0) || !(a.softcap >= 0) || a.window < 0) {
    return invalid_argument("attention: scale must be positive, softcap and window not negative");
  }
  if (a.q_stride % 8 != 0 || a.out_stride % 8 != 0 || a.block_stride % 128 != 0) {
    return invalid_argument("attention: strides must keep 16-byte rows (8 elements) and 128-byte blocks");
  }
  return ok_status();
}

Status check_pointers(const AttentionArgs& a) {
  if (a.q == nullptr || a.out == nullptr || a.k == nullptr || a.v == nullptr || a.table == nullptr ||
      a.kv_len == nullptr || a.pos == nullptr) {
    return invalid_argument("attention: null pointer among q, out, k, v, table, kv_len, pos");
  }
  if (!aligned16(a.q) || !aligned16(a.out) || !aligned16(a.k) || !aligned16(a.v)) {
    return invalid_argument("attention: q, out, k and v must be aligned to 16 bytes");
  }
  if (a.tree != nullptr && a.tree_words < 1) {
    return invalid_argument("attention: a tree needs its words a row");
  }
  return ok_status();
}

AttentionParams params(const AttentionArgs& a) {
  AttentionParams p = {};
  p.q = a.q, p.out = a.out;
  p.k = static_cast<const char*>(a.k), p.v = static_cast<const char*>(a.v);
  p.table = a.table, p.kv_len = a.kv_len, p.pos = a.pos;
  p.sinks = a.sinks, p.tree = a.tree;
  p.counts = a.counts, p.taken = a.taken, p.segments = a.segments, p.merges = a.merges, p.prefill = a.prefill;
  p.partial_o = a.partial;
  p.partial_ml = a.partial + a.partial_slots * a.unit_rows * a.head_dim;
  p.q_stride = a.q_stride, p.out_stride = a.out_stride, p.block_stride = a.block_stride;
  p.group = a.q_heads / a.kv_heads, p.kv_heads = a.kv_heads, p.table_stride = a.table_stride;
  while ((1 << p.block_shift) < a.block_tokens) ++p.block_shift;
  p.window = a.window, p.causal = a.causal ? 1 : 0, p.tree_words = a.tree_words, p.unit_rows = a.unit_rows;
  p.log2_scale = a.softcap > 0 ? kLog2E : a.scale * kLog2E;
  p.cap = a.softcap, p.scale_over_cap = a.softcap > 0 ? a.scale / a.softcap : 0;
  return p;
}

// Portable kernels run everywhere from sm_80; sm_90a code on sm_90 alone.
bool runs_on(const TileKernel& kernel, int32_t sm) { return kernel.sm == 80 ? sm >= 80 : sm == kernel.sm; }

std::string shape_name(const AttentionArgs& a) {
  return std::string(dtype_name(a.dtype)) + ", head size " + std::to_string(a.head_dim);
}

}  // namespace

int32_t attention_workers_per_sm(int32_t head_dim) { return head_dim > 128 ? 1 : 2; }

int32_t attention_prefill_rows(int32_t sm_version, int32_t head_dim) {
  return sm_version == 90 && (head_dim == 64 || head_dim == 128) ? 128 : 0;
}

Status launch_attention_tiles(const AttentionArgs& a, const LaunchOn& on) {
  BORA_TRY(check_shape(a));
  BORA_TRY(check_pointers(a));
  if (a.segments == nullptr || a.counts == nullptr || a.taken == nullptr || a.workers < 1) {
    return invalid_argument("attention: the plan's segments, counts or the counters are missing");
  }
  if (a.merge_count < 0 || (a.merge_count > 0 && (a.merges == nullptr || a.partial == nullptr))) {
    return invalid_argument("attention: split units need merges and a workspace");
  }
  if (a.merge_rows < 1 || a.merge_rows > a.unit_rows) {
    return invalid_argument("attention: units of " + std::to_string(a.merge_rows) + " rows in a kernel for " +
                            std::to_string(a.unit_rows));
  }
  if (!aligned16(a.partial)) return invalid_argument("attention: the workspace must be aligned to 16 bytes");
  if (a.q_heads / a.kv_heads > a.unit_rows) {
    return unimplemented("attention: a group of " + std::to_string(a.q_heads / a.kv_heads) +
                         " heads does not fit a unit of " + std::to_string(a.unit_rows) + " rows");
  }
  const AttentionParams p = params(a);
  for (const TileKernel* kernel : kTileKernels) {
    if (kernel->dtype != a.dtype || kernel->head_dim != a.head_dim || kernel->unit_rows != a.unit_rows ||
        !runs_on(*kernel, a.sm_version)) {
      continue;
    }
    BORA_TRY(kernel->launch(p, a.workers, on));
    if (a.merge_count == 0) return ok_status();
    for (const MergeKernel* merge : kMergeKernels) {
      if (merge->dtype == a.dtype) return merge->launch(p, {a.merge_count, a.merge_rows, a.head_dim}, on);
    }
  }
  return unimplemented("attention: no tile kernel for " + shape_name(a) + ", units of " +
                       std::to_string(a.unit_rows) + " rows");
}

Status launch_attention_prefill(const AttentionArgs& a, const LaunchOn& on) {
  BORA_TRY(check_shape(a));
  BORA_TRY(check_pointers(a));
  if (a.prefill == nullptr || a.counts == nullptr || a.prefill_count < 1)
    return invalid_argument("attention: no prefill blocks");
  if (a.sm_version != 90) return unimplemented("attention: the prefill kernel is sm_90a code");
  if (a.tree != nullptr) return unimplemented("attention: tree rows go to the tile kernel");
  if (a.q_heads / a.kv_heads > 128) return unimplemented("attention: groups above 128 heads");
  const AttentionParams p = params(a);
  for (const PrefillKernel* kernel : kPrefillKernels) {
    if (kernel->dtype == a.dtype && kernel->head_dim == a.head_dim) return kernel->launch(p, a.prefill_count, on);
  }
  return unimplemented("attention: no prefill kernel for " + shape_name(a));
}

}  // namespace bora::cuda
