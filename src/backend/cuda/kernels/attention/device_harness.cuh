// Harness of the device test and bench: builds a paged cache and a step on the device, runs a form, returns
// the rows.
//
// Contents are functions of (sequence id, position, head, dim), so that one sequence has the same keys,
// values and queries in every batch, chunking and block order. Blocks are handed out in a shuffled order and
// the cache starts as NaN.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/kernels/attention/attention.h"
#include "backend/cuda/kernels/attention/kv_layout.h"

namespace bora::cuda::harness {

#define BORA_CUDA_OK(expr)                                                                      \
  do {                                                                                          \
    const cudaError_t bora_error = (expr);                                                      \
    if (bora_error != cudaSuccess) {                                                            \
      std::printf("%s:%d %s: %s\n", __FILE__, __LINE__, #expr, cudaGetErrorString(bora_error)); \
      std::exit(1);                                                                             \
    }                                                                                           \
  } while (false)

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    BORA_CUDA_OK(cudaMalloc(&data_, std::max<size_t>(count, 4) * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) {
    if (!host.empty()) BORA_CUDA_OK(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> out(count_);
    BORA_CUDA_OK(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }
  size_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  size_t count_;
};

inline uint64_t mix(uint64_t x) {
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27, x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// About normal, with one outlier of 12 in 512.
inline float content(int kind, int64_t seq, int64_t pos, int head, int dim) {
  const uint64_t h = mix(mix(mix(kind * 1000003 + seq) + pos * 7919 + head) + dim);
  float x = 0;
  for (int i = 0; i < 4; ++i) x += static_cast<float>((h >> (i * 16)) & 0xffff) / 65536.0f - 0.5f;
  x *= 1.7320508f;
  return (mix(h) & 511) == 0 ? x * 12 : x;
}

inline uint16_t encode(float x, DType t) {
  if (t == DType::kBF16) {
    const __nv_bfloat16 v = __float2bfloat16(x);
    uint16_t bits;
    std::memcpy(&bits, &v, 2);
    return bits;
  }
  const __half v = __float2half(x);
  uint16_t bits;
  std::memcpy(&bits, &v, 2);
  return bits;
}
inline float decode(uint16_t bits, DType t) {
  if (t == DType::kBF16) {
    __nv_bfloat16_raw raw;
    raw.x = bits;
    return __bfloat162float(raw);
  }
  __half_raw raw;
  raw.x = bits;
  return __half2float(raw);
}

struct Model {
  DType dtype = DType::kBF16;
  int head_dim = 128, q_heads = 8, kv_heads = 2, block_tokens = 16, window = 0;
  float scale = 0.088f, softcap = 0;
  bool causal = true, sinks = false;
  int sm = 90;  // 80: the portable kernels
};

inline void check(const Status& status) {
  if (status.ok()) return;
  std::printf("launch: %s\n", status.to_string().c_str());
  std::exit(1);
}

// Rows [pos, pos + tokens) of sequence `id`, whose length is then kv_len.
struct Work {
  int64_t id;
  int kv_len, pos, tokens;
  std::vector<int> parent = {};  // of a tree's rows, -1 = root; empty = chain
  std::vector<int> name = {};    // contents of the step's rows by name instead of by position
  int slack = 0;                 // the plan expects lengths and positions greater by this
};

enum class Form { kTile16, kTileWide, kPrefill };

inline const char* form_name(Form f) {
  return f == Form::kTile16 ? "tile16" : f == Form::kTileWide ? "tile-wide" : "prefill";
}

inline int depth_of(const Work& w, int row) {
  int d = 0;
  while (w.parent[row] >= 0) row = w.parent[row], ++d;
  return d;
}

inline std::vector<uint16_t> run(const Model& m, const std::vector<Work>& works, Form form, int workers) {
  int total = 0, blocks = 0, pages = 1;
  for (const Work& w : works) {
    total += w.tokens;
    const int need = (w.kv_len + m.block_tokens - 1) / m.block_tokens;
    blocks += need;
    pages = std::max(pages, need);
  }
  std::vector<int> ids(blocks);
  for (int i = 0; i < blocks; ++i) ids[i] = i;
  std::shuffle(ids.begin(), ids.end(), std::mt19937(blocks * 31 + total));
  const int64_t block_bytes = kv_block_bytes(m.head_dim, m.block_tokens, m.kv_heads);
  std::vector<uint16_t> k(blocks * block_bytes / 2, 0x7fff), v(k), q(int64_t{total} * m.q_heads * m.head_dim);
  std::vector<int32_t> table(works.size() * pages, 0), kv_len, pos, begin;
  std::vector<uint32_t> tree(total, 0);
  bool any_tree = false;
  std::vector<AttentionSequence> sequences;
  int row0 = 0, next = 0;
  for (size_t s = 0; s < works.size(); ++s) {
    const Work& w = works[s];
    for (int b = 0; b < (w.kv_len + m.block_tokens - 1) / m.block_tokens; ++b) table[s * pages + b] = ids[next++];
    for (int t = 0; t < w.kv_len; ++t) {
      // The step's row i lies at cache position base + i.
      const int base = w.kv_len - w.tokens;
      const int64_t at = !w.name.empty() && t >= base ? 1000000 + w.name[t - base] : t;
      for (int h = 0; h < m.kv_heads; ++h) {
        for (int d = 0; d < m.head_dim; ++d) {
          const int64_t where =
              (table[s * pages + t / m.block_tokens] * block_bytes + h * kv_chunk_bytes(m.head_dim, m.block_tokens) +
               kv_offset(m.head_dim, t % m.block_tokens, d)) /
              2;
          k[where] = encode(content(1, w.id, at, h, d), m.dtype);
          v[where] = encode(content(2, w.id, at, h, d), m.dtype);
        }
      }
    }
    begin.push_back(row0);
    kv_len.push_back(w.kv_len);
    for (int i = 0; i < w.tokens; ++i) {
      const bool is_tree = !w.parent.empty();
      pos.push_back(is_tree ? w.kv_len - w.tokens + depth_of(w, i) : w.pos + i);
      for (int h = 0; h < m.q_heads; ++h) {
        for (int d = 0; d < m.head_dim; ++d) {
          q[(int64_t{row0 + i} * m.q_heads + h) * m.head_dim + d] =
              encode(content(3, w.id, w.name.empty() ? w.pos + i : 1000000 + w.name[i], h, d), m.dtype);
        }
      }
      if (is_tree) {
        any_tree = true;
        for (int r = i; r >= 0; r = w.parent[r]) tree[row0 + i] |= 1u << r;
      }
    }
    sequences.push_back({row0, w.tokens, w.kv_len + w.slack, w.pos + w.slack, !w.parent.empty(), w.slack});
    row0 += w.tokens;
  }
  begin.push_back(row0);

  AttentionArgs a;
  a.unit_rows = form == Form::kTileWide ? (m.head_dim == 256 ? 32 : 64) : 16;
  AttentionShape shape{
      m.q_heads, m.kv_heads, m.window, m.causal, workers, a.unit_rows, form == Form::kPrefill ? 128 : 0, 0};
  Result<AttentionPlan> planned = plan_attention(sequences, shape);
  if (!planned.ok()) {
    std::printf("plan: %s\n", planned.status().to_string().c_str());
    std::exit(1);
  }
  const AttentionPlan& plan = *planned;
  std::vector<float> sinks(m.q_heads);
  for (int h = 0; h < m.q_heads; ++h) sinks[h] = 0.5f * (h % 5) - 1;
  DeviceArray<uint16_t> dk(k), dv(v), dq(q), out(std::vector<uint16_t>(q.size(), 0x7fff));
  DeviceArray<int32_t> dtable(table), dlen(kv_len), dpos(pos);
  DeviceArray<uint32_t> dtree(tree);
  DeviceArray<float> dsinks(sinks);
  DeviceArray<AttentionSegment> segments(plan.segments);
  DeviceArray<int32_t> counts(std::vector<int32_t>(plan.counts.begin(), plan.counts.end()));
  DeviceArray<uint32_t> taken(std::vector<uint32_t>(2, 0));
  DeviceArray<AttentionMerge> merges(plan.merges);
  DeviceArray<AttentionPrefill> prefill(plan.prefill);
  DeviceArray<float> partial(attention_workspace_bytes(plan.partial_slots, a.unit_rows, m.head_dim) / 4);
  a.sm_version = m.sm, a.dtype = m.dtype, a.head_dim = m.head_dim, a.q_heads = m.q_heads, a.kv_heads = m.kv_heads;
  a.q = dq.get(), a.out = out.get(), a.q_stride = a.out_stride = m.q_heads * m.head_dim;
  a.k = dk.get(), a.v = dv.get(), a.block_stride = block_bytes, a.block_tokens = m.block_tokens;
  a.table = dtable.get(), a.table_stride = pages, a.kv_len = dlen.get(), a.pos = dpos.get();
  a.scale = m.scale, a.softcap = m.softcap, a.window = m.window, a.causal = m.causal;
  a.sinks = m.sinks ? dsinks.get() : nullptr;
  if (any_tree) a.tree = dtree.get(), a.tree_words = 1;
  a.segments = segments.get(), a.workers = workers, a.counts = counts.get(), a.taken = taken.get();
  a.merges = merges.get(), a.merge_count = static_cast<int>(plan.merges.size()),
  a.merge_rows = std::max(plan.unit_rows, 1);
  a.prefill = prefill.get(), a.prefill_count = static_cast<int>(plan.prefill.size());
  a.partial = partial.get(), a.partial_slots = plan.partial_slots;
  if (!plan.segments.empty()) check(launch_attention_tiles(a, {nullptr, true}));
  if (a.prefill_count > 0) check(launch_attention_prefill(a, {nullptr, true}));
  BORA_CUDA_OK(cudaDeviceSynchronize());
  return out.host();
}

}  // namespace bora::cuda::harness
