// Parameters of the attention kernels as they travel to the device.
#pragma once

#include "backend/cuda/kernels/attention/attention.h"

namespace bora::cuda {

struct AttentionParams {
  const void* q;
  void* out;
  const char* k;
  const char* v;
  const int32_t* table;
  const int32_t* kv_len;
  const int32_t* pos;
  const float* sinks;
  const uint32_t* tree;
  const int32_t* counts;  // segments, merges, prefill blocks
  unsigned int* taken;    // segments handed out beyond the first of each block; blocks that are done
  const AttentionSegment* segments;
  const AttentionMerge* merges;
  const AttentionPrefill* prefill;
  float* partial_o;   // [slot, unit_rows, head_dim]
  float* partial_ml;  // [slot, unit_rows, 2]
  int64_t q_stride, out_stride, block_stride;
  int32_t group, kv_heads, table_stride, block_shift, window, causal, tree_words, unit_rows;
  float log2_scale;           // scale * log2(e), or log2(e) with softcap
  float scale_over_cap, cap;  // cap 0 = none
};

// One record per compiled kernel: element type, head size and unit rows.
struct TileKernel {
  DType dtype;
  int32_t head_dim, unit_rows, sm;  // sm: 80 = portable, 90 = sm_90 only
  Status (*launch)(const AttentionParams&, int32_t workers, const LaunchOn&);
};
struct MergeSize {
  int32_t merges, rows, head_dim;
};
struct MergeKernel {
  DType dtype;
  Status (*launch)(const AttentionParams&, MergeSize, const LaunchOn&);
};
struct PrefillKernel {
  DType dtype;
  int32_t head_dim;
  Status (*launch)(const AttentionParams&, int32_t blocks, const LaunchOn&);
};

}  // namespace bora::cuda
