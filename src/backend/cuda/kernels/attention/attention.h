// Paged attention on a CUDA device: keys and values in blocks, queries packed by group, one arithmetic for
// all forms.
//
// A row is (token, query head). Its result is a function of its own query, its keys and values and its
// position only: tiles of 256 keys counted from position 0, each from fresh accumulators, merged in ascending
// order (README.md states every rounding). The tile kernel (decode, verification, mixed batches; sm_80 and
// later) and the prefill kernel (sm_90a) give the same bits. All launches are asynchronous on the stream,
// allocate nothing and may be captured into a graph.
//
// Bad arguments return kInvalidArgument (or kUnimplemented for shapes without a kernel) with words, and
// nothing is launched.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention/plan.h"
#include "backend/cuda/kernels/common/stream.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace bora::cuda {

// All pointers are device pointers.
struct AttentionArgs {
  int32_t sm_version = 0;      // of the device: 80, 86, 89, 90, ...
  DType dtype = DType::kBF16;  // of queries, cache and output: kBF16 or kF16
  int32_t head_dim = 0;        // 64, 80, 96, 128, 256
  int32_t q_heads = 0, kv_heads = 0;

  const void* q = nullptr;  // [T, q_heads, head_dim]; elements from token to token: q_stride
  void* out = nullptr;      // [T, q_heads, head_dim]; out_stride
  int64_t q_stride = 0, out_stride = 0;

  const void* k = nullptr;  // blocks as kv_layout.h draws them
  const void* v = nullptr;
  int64_t block_stride = 0;  // bytes from block to block (both)
  int32_t block_tokens = 16;
  const int32_t* table = nullptr;  // [S, table_stride] block ids
  int32_t table_stride = 0;
  const int32_t* kv_len = nullptr;  // [S] length after this step's append
  const int32_t* pos = nullptr;     // [T] position of each row

  float scale = 1;     // > 0; of q.k before softcap
  float softcap = 0;   // 0 = none; else cap * tanh(s / cap)
  int32_t window = 0;  // 0 = none
  bool causal = true;
  const float* sinks = nullptr;  // [q_heads] extra logit in the denominator, or null
  const uint32_t* tree =
      nullptr;             // [T, tree_words] bit j of row t: the step's j-th row of the sequence is an ancestor
  int32_t tree_words = 0;  // of t or t itself; null = chains. Units must be single rows (AttentionSequence::tree)

  // The plan's arrays on the device. A captured graph serves other plans too: what is launched are upper
  // bounds, how many there are stands in `counts`.
  const int32_t* counts = nullptr;  // [4] AttentionPlan::counts
  const AttentionSegment* segments = nullptr;
  int32_t workers = 0;        // thread blocks to launch; at most what the device holds at once
  uint32_t* taken = nullptr;  // [2] zeroed once by the caller; every launch leaves it zeroed
  const AttentionMerge* merges = nullptr;
  int32_t merge_count = 0;  // bound of merges
  int32_t merge_rows = 1;   // bound of AttentionPlan::unit_rows
  const AttentionPrefill* prefill = nullptr;
  int32_t prefill_count = 0;  // bound of prefill blocks
  int32_t unit_rows = 16;     // rows of the tile kernel's unit: 16, or 64 (32 for head_dim 256)
  float* partial = nullptr;   // attention_workspace_bytes
  int64_t partial_slots = 0;
};

// Bytes of `partial` for `slots` partials.
constexpr int64_t attention_workspace_bytes(int64_t slots, int32_t unit_rows, int32_t head_dim) {
  return slots * unit_rows * (int64_t{head_dim} + 2) * 4;
}

// Thread blocks of the tile kernel that one multiprocessor holds: workers = this * multiprocessors.
int32_t attention_workers_per_sm(int32_t head_dim);

// Rows a prefill block holds, 0 where the device or head size has no prefill kernel.
int32_t attention_prefill_rows(int32_t sm_version, int32_t head_dim);

// Kernels may start before the kernel before them on the stream has ended (dependent launch): what that
// kernel writes is read after it ended; the plan's arrays, `table`, `kv_len` and `pos`, and keys and values
// from before this step, are read earlier and must have been written by an older launch.
//
// The tile kernel over all workers, then (merge_count > 0) the merge of split units.
Status launch_attention_tiles(const AttentionArgs& args, const LaunchOn& on);

// The sm_90a prefill kernel over prefill_count blocks.
Status launch_attention_prefill(const AttentionArgs& args, const LaunchOn& on);

}  // namespace bora::cuda
