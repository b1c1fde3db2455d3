// A decode step assembled from the kernels: model shapes, random weights in the packed layouts, a paged cache, and
// the launches of one step in order. Contents are functions of (seed, index) or (sequence id, layer, position, head,
// dim), so one sequence is the same alone and among others.
//
//   advance, embed, [norm, qkv, rope + append, attention, o + residual, norm, gate/up + silu, down + residual] a
//   layer, norm, head, choice: the chosen token is the next step's input, on the device.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/kernels/attention/attention.h"
#include "backend/cuda/kernels/attention/kv_layout.h"
#include "backend/cuda/kernels/linear/linear.h"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda::bench {

#define MUST(call)                                                                            \
  do {                                                                                        \
    const cudaError_t must_error = (call);                                                    \
    if (must_error != cudaSuccess) {                                                          \
      std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(must_error)); \
      std::exit(1);                                                                           \
    }                                                                                         \
  } while (false)

inline void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

struct ModelShape {
  const char* name;
  int32_t layers, dim, q_heads, kv_heads, head_dim, ffn, vocab;
  bool qkv_bias;
  float rope_base;
};
inline constexpr ModelShape kModels[] = {
    {"1b", 16, 2048, 32, 8, 64, 8192, 128256, false, 5e5f},    // Llama-3.2-1B
    {"8b", 32, 4096, 32, 8, 128, 14336, 128256, false, 5e5f},  // Llama-3.1-8B
    {"7b", 28, 3584, 28, 4, 128, 18944, 152064, true, 1e6f},   // Qwen2.5-7B
    {"tiny", 3, 512, 8, 2, 64, 1024, 2048, true, 1e4f},        // the gate's
    {"tiny128", 2, 1024, 8, 2, 128, 2048, 1000, false, 1e4f},
};

struct Recipe {
  const char* name;
  LinearFormat layers, head;
};
inline constexpr Recipe kRecipes[] = {
    {"bf16", {}, {}},
    {"fp8", {Codes::kFp8}, {}},
    {"int4", {Codes::kInt4, 128}, {Codes::kFp8}},
    {"int4_head_int8", {Codes::kInt4, 128}, {Codes::kInt8, 32}},
};

// Device memory of one allocation, zeroed.
class Memory {
 public:
  Memory() = default;
  explicit Memory(int64_t bytes) : bytes_(std::max<int64_t>(bytes, 256)) {
    MUST(cudaMalloc(&data_, static_cast<size_t>(bytes_)));
    MUST(cudaMemset(data_, 0, static_cast<size_t>(bytes_)));
  }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory() { cudaFree(data_); }
  template <typename T = uint8_t>
  T* get() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  void put(const std::vector<T>& from) {
    MUST(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  template <typename T>
  std::vector<T> host() const {
    std::vector<T> out(static_cast<size_t>(bytes_) / sizeof(T));
    MUST(cudaMemcpy(out.data(), data_, out.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

__host__ __device__ inline uint32_t mixed(uint64_t i) {
  uint32_t h = static_cast<uint32_t>(i) * 0x9E3779B1u ^ static_cast<uint32_t>(i >> 32) * 0x85EBCA77u;
  h ^= h >> 15, h *= 0x2C1B3C6Du, h ^= h >> 12, h *= 0x297A2D39u, h ^= h >> 15;
  return h;
}

// Random codes whose values have mean square about 1 / k, so that a product of a normalised row has size 1: bf16 by
// its exponent, INT4 and INT8 by the scale; FP8 has values near 0.7 and takes a scale a channel.
static __global__ void fill_weights_kernel(uint32_t* out, uint64_t words, LinearFormat format, uint32_t seed,
                                           uint32_t bf16_bits, uint32_t scale_bits) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += stride) {
    uint32_t h = mixed(i + (uint64_t{seed} << 40));
    if (static_cast<int>(i * 4 % format.block_bytes()) >= format.code_bytes()) {
      h = scale_bits;
    } else if (format.codes == Codes::k16) {
      h = (h & 0x80FF80FFu) + bf16_bits;
    } else if (format.codes == Codes::kFp8) {
      h &= 0xBFBFBFBFu;
    }
    out[i] = h;
  }
}
static __global__ void fill_half_kernel(uint32_t* out, uint64_t words, uint32_t seed, uint32_t bits) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += stride)
    out[i] = (mixed(i + (uint64_t{seed} << 40)) & 0x80FF80FFu) + bits;
}
// Keys and values of positions before `length`; one block a (position, sequence).
static __global__ void fill_cache_kernel(uint16_t* k, uint16_t* v, const int32_t* table, int32_t table_stride,
                                         const int32_t* ids, int32_t layer, int32_t kv_heads, int32_t head_dim,
                                         int64_t block_stride) {
  const int32_t position = blockIdx.x, seq = blockIdx.y;
  const int64_t block = table[seq * table_stride + position / 16];
  for (int32_t i = threadIdx.x; i < kv_heads * head_dim; i += blockDim.x) {
    const int32_t head = i / head_dim, d = i % head_dim;
    const int64_t at =
        (block * block_stride + head * kv_chunk_bytes(head_dim, 16) + kv_offset(head_dim, position % 16, d)) / 2;
    const uint64_t key = ((uint64_t{static_cast<uint32_t>(ids[seq])} * 64 + layer) << 34) +
                         static_cast<uint64_t>(position) * 65536 + static_cast<uint64_t>(i);
    k[at] = static_cast<uint16_t>((mixed(key) & 0x80FFu) + 0x3F00u);
    v[at] = static_cast<uint16_t>((mixed(key ^ 0x5555555555ull) & 0x80FFu) + 0x3F00u);
  }
}

// One kind of linear for all layers.
struct LinearSet {
  LinearWeights weights;  // of layer 0
  int64_t layer_bytes = 0;
  Gate gate = Gate::kNone;
  Memory packed, scale, bias;

  LinearWeights of(int32_t layer) const {
    LinearWeights w = weights;
    w.packed = packed.get() + layer * layer_bytes;
    return w;
  }
};

inline uint32_t bf16_exponent(double value) {  // both halves, mantissa 0, the power of two at or below `value`
  const int e = static_cast<int>(std::floor(std::log2(value))) + 127;
  return static_cast<uint32_t>(e << 7) * 0x10001u;
}
inline uint16_t f16_bits(double value) {  // normal numbers only
  int e = 0;
  const double m = std::frexp(value, &e);
  return static_cast<uint16_t>(((e + 14) << 10) + static_cast<int>((m * 2 - 1) * 1024));
}

inline LinearSet make_linear(const LinearFormat& format, int64_t n, int64_t k, int32_t layers, Gate gate, bool bias,
                             uint32_t seed) {
  LinearSet s;
  s.weights.format = format, s.weights.n = n, s.weights.k = k, s.gate = gate;
  s.layer_bytes = packed_bytes(format, n, k);
  s.packed = Memory(s.layer_bytes * layers);
  const double unit = 1 / std::sqrt(static_cast<double>(k));
  // Mean squares: bf16 of two octaves from b: 3.3 b; INT4 codes 4.6; INT8 codes 74; e4m3 below 2: 0.66.
  const double code = format.codes == Codes::kInt4 ? 4.6 : 74;
  fill_weights_kernel<<<1056, 256>>>(s.packed.get<uint32_t>(), static_cast<uint64_t>(s.packed.bytes()) / 4, format,
                                     seed, bf16_exponent(unit / 2), f16_bits(unit / code) * 0x10001u);
  MUST(cudaGetLastError());
  if (format.codes == Codes::kFp8) {
    std::vector<float> scale(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) scale[static_cast<size_t>(i)] = static_cast<float>(unit * (1 + i % 3 * 0.25));
    s.scale = Memory(n * 4);
    s.scale.put(scale);
    s.weights.channel_scale = s.scale.get<float>();
  }
  if (bias) {
    s.bias = Memory(n * 2);
    fill_half_kernel<<<64, 256>>>(s.bias.get<uint32_t>(), static_cast<uint64_t>(n) / 2, seed + 1, 0x3E003E00u);
    s.weights.bias = s.bias.get();
  }
  MUST(cudaDeviceSynchronize());
  return s;
}

struct Model {
  ModelShape shape;
  const Recipe* recipe = nullptr;
  LinearSet qkv, o, gate_up, down, head;
  Memory embedding, norms, rope;  // norms: [2 * layers + 1, dim]
  int64_t weight_bytes = 0;       // that a step reads

  Model(const ModelShape& s, const Recipe& r, int32_t positions) : shape(s), recipe(&r) {
    const int32_t q = s.q_heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    qkv = make_linear(r.layers, q + 2 * kv, s.dim, s.layers, Gate::kNone, s.qkv_bias, 11);
    o = make_linear(r.layers, s.dim, q, s.layers, Gate::kNone, false, 21);
    gate_up = make_linear(r.layers, 2 * s.ffn, s.dim, s.layers, Gate::kSilu, false, 31);
    down = make_linear(r.layers, s.dim, s.ffn, s.layers, Gate::kNone, false, 41);
    head = make_linear(r.head, s.vocab, s.dim, 1, Gate::kNone, false, 51);
    embedding = Memory(int64_t{s.vocab} * s.dim * 2);
    fill_half_kernel<<<1056, 256>>>(embedding.get<uint32_t>(), static_cast<uint64_t>(embedding.bytes()) / 4, 61,
                                    0x3F003F00u);
    norms = Memory((2 * int64_t{s.layers} + 1) * s.dim * 2);
    fill_half_kernel<<<64, 256>>>(norms.get<uint32_t>(), static_cast<uint64_t>(norms.bytes()) / 4, 71, 0x3F003F00u);
    std::vector<float> table(static_cast<size_t>(positions) * s.head_dim);
    for (int32_t p = 0; p < positions; ++p) {
      for (int32_t i = 0; i < s.head_dim / 2; ++i) {
        const double angle = p * std::pow(static_cast<double>(s.rope_base), -2.0 * i / s.head_dim);
        table[(static_cast<size_t>(p) * s.head_dim / 2 + i) * 2] = static_cast<float>(std::cos(angle));
        table[(static_cast<size_t>(p) * s.head_dim / 2 + i) * 2 + 1] = static_cast<float>(std::sin(angle));
      }
    }
    rope = Memory(static_cast<int64_t>(table.size()) * 4);
    rope.put(table);
    weight_bytes =
        qkv.packed.bytes() + o.packed.bytes() + gate_up.packed.bytes() + down.packed.bytes() + head.packed.bytes();
    MUST(cudaDeviceSynchronize());
  }
};

enum Part : uint32_t { kNorms = 1, kRope = 2, kAttention = 4, kLinears = 8, kHead = 16, kChoice = 32, kStart = 64 };

struct StepOptions {
  bool dependent = true;
  bool sampled = false;  // top-k 50, top-p 0.9, temperature 0.8; else greedy
  uint32_t without = 0;  // parts left out, to see what they cost
};

// A batch of decoding sequences with its cache, buffers and plans.
struct Batch {
  const Model& model;
  const DeviceInfo& device;
  int32_t sequences, context, steps;
  StepOptions options;
  cudaStream_t stream = nullptr;
  int32_t pages = 0;
  std::vector<int32_t> table_host;
  std::vector<Memory> k, v;
  Memory table, ids, ids_start, pos, kv_len, slot, h, n, qkv, q, a, f, logits, wide, scratch, params;
  Memory segments, merges, counts, taken, partial;
  AttentionPlan plan;
  FlatPlan plans[5];

  // Sequence i of the batch is `names[i]`: its contents follow from that.
  Batch(const Model& m, const DeviceInfo& d, const std::vector<int32_t>& names, int32_t context_, int32_t steps_,
        const StepOptions& o)
      : model(m),
        device(d),
        sequences(static_cast<int32_t>(names.size())),
        context(context_),
        steps(steps_),
        options(o) {
    MUST(cudaStreamCreate(&stream));
    make_cache(names);
    make_buffers();
    make_plans();
    reset();
  }
  ~Batch() { cudaStreamDestroy(stream); }
  Batch(const Batch&) = delete;

  int64_t block_bytes() const { return kv_block_bytes(model.shape.head_dim, 16, model.shape.kv_heads); }

  void make_cache(const std::vector<int32_t>& names) {
    const ModelShape& s = model.shape;
    pages = (context + steps + 15) / 16;
    const int32_t blocks = pages * sequences;
    table_host.resize(static_cast<size_t>(blocks));
    for (int32_t i = 0; i < blocks; ++i) table_host[static_cast<size_t>(i)] = i;
    std::shuffle(table_host.begin(), table_host.end(), std::mt19937(static_cast<uint32_t>(blocks)));
    table = Memory(int64_t{blocks} * 4);
    table.put(table_host);
    Memory name(int64_t{sequences} * 4);
    name.put(names);
    for (int32_t layer = 0; layer < s.layers; ++layer) {
      k.emplace_back(blocks * block_bytes());
      v.emplace_back(blocks * block_bytes());
      MUST(cudaMemset(k.back().get(), 0x7F, static_cast<size_t>(k.back().bytes())));  // what is not there is NaN
      MUST(cudaMemset(v.back().get(), 0x7F, static_cast<size_t>(v.back().bytes())));
      if (context < 2) continue;
      fill_cache_kernel<<<dim3(static_cast<unsigned>(context - 1), static_cast<unsigned>(sequences)), 256>>>(
          k.back().get<uint16_t>(), v.back().get<uint16_t>(), table.get<int32_t>(), pages, name.get<int32_t>(), layer,
          s.kv_heads, s.head_dim, block_bytes());
      MUST(cudaGetLastError());
    }
    std::vector<int32_t> first;
    for (const int32_t n : names) first.push_back(static_cast<int32_t>(mixed(n) % static_cast<uint32_t>(s.vocab)));
    ids_start = Memory(int64_t{sequences} * 4);
    ids_start.put(first);
    MUST(cudaDeviceSynchronize());
  }

  void make_buffers() {
    const ModelShape& s = model.shape;
    const int64_t t = sequences;
    ids = Memory(t * 4), pos = Memory(t * 4), kv_len = Memory(t * 4), slot = Memory(t * 4);
    h = Memory(t * s.dim * 2), n = Memory(t * s.dim * 2);
    qkv = Memory(t * model.qkv.weights.n * 2);
    q = Memory(t * s.q_heads * s.head_dim * 2), a = Memory(t * s.q_heads * s.head_dim * 2);
    f = Memory(t * s.ffn * 2), logits = Memory(t * s.vocab * 2), wide = Memory(t * s.vocab * 4);
    scratch = Memory(t * 16);
    std::vector<SampleParams> sampling(static_cast<size_t>(t));
    for (size_t i = 0; i < sampling.size(); ++i) {
      sampling[i].temperature = 0.8f, sampling[i].top_k = 50, sampling[i].top_p = 0.9f, sampling[i].seed = i;
    }
    params = Memory(t * static_cast<int64_t>(sizeof(SampleParams)));
    params.put(sampling);
  }

  void make_plans() {
    const ModelShape& s = model.shape;
    const LinearSet* sets[5] = {&model.qkv, &model.o, &model.gate_up, &model.down, &model.head};
    for (int i = 0; i < 5; ++i) plans[i] = plan_flat(sets[i]->weights, sequences, device);
    std::vector<AttentionSequence> list;
    for (int32_t i = 0; i < sequences; ++i) {
      const int32_t most = context + steps;
      list.push_back({i, 1, most, most - 1, false, steps});
    }
    AttentionShape shape{s.q_heads, s.kv_heads};
    shape.workers = attention_workers_per_sm(s.head_dim) * device.sms;
    Result<AttentionPlan> planned = plan_attention(list, shape);
    must(planned.status());
    plan = *planned;
    segments = Memory(static_cast<int64_t>(plan.segments.size() * sizeof(AttentionSegment)));
    segments.put(plan.segments);
    merges = Memory(static_cast<int64_t>(plan.merges.size() * sizeof(AttentionMerge)));
    merges.put(plan.merges);
    counts = Memory(16);
    counts.put(std::vector<int32_t>(plan.counts.begin(), plan.counts.end()));
    taken = Memory(8);
    partial = Memory(attention_workspace_bytes(plan.partial_slots, 16, s.head_dim));
  }

  // Back to `context` - 1 tokens in the cache and the first token.
  void reset() {
    std::vector<int32_t> at(static_cast<size_t>(sequences), context - 2);
    pos.put(at);
    MUST(cudaMemcpy(ids.get(), ids_start.get(), static_cast<size_t>(sequences) * 4, cudaMemcpyDeviceToDevice));
    MUST(cudaDeviceSynchronize());
  }

  bool has(Part part) const { return (options.without & part) == 0; }
  LaunchOn on() const { return {stream, options.dependent}; }

  void norm(const Memory& in, int32_t which) const {
    if (!has(kNorms)) return;
    NormArgs args;
    args.in = in.get(), args.out = n.get(), args.weight = model.norms.get() + int64_t{which} * model.shape.dim * 2;
    args.in_stride = args.out_stride = args.dim = model.shape.dim, args.tokens = sequences;
    must(launch_norm(args, on()));
  }
  void linear(const LinearSet& set, const FlatPlan& cut, int32_t layer, const Memory& x, const Memory& y,
              const Memory* residual) const {
    if (!has(kLinears)) return;
    LinearArgs args;
    args.x = x.get(), args.x_stride = set.weights.k, args.y = y.get(), args.m = sequences, args.gate = set.gate;
    args.y_stride = set.gate == Gate::kNone ? set.weights.n : set.weights.n / 2;
    if (residual != nullptr) args.residual = residual->get(), args.residual_stride = args.y_stride;
    must(linear_flat(set.of(layer), args, cut, device, on()));
  }
  RopeAppendArgs rope_args(int32_t layer) const {
    const ModelShape& s = model.shape;
    RopeAppendArgs r;
    r.qkv = qkv.get(), r.qkv_stride = model.qkv.weights.n, r.q_out = q.get(), r.q_stride = s.q_heads * s.head_dim;
    r.rope = model.rope.get<float>(), r.rot_dim = s.head_dim, r.pos = pos.get<int32_t>(),
    r.slot = slot.get<int32_t>();
    r.k = k[static_cast<size_t>(layer)].get(), r.v = v[static_cast<size_t>(layer)].get();
    r.block_stride = block_bytes(), r.tokens = sequences;
    r.q_heads = s.q_heads, r.kv_heads = s.kv_heads, r.head_dim = s.head_dim;
    return r;
  }
  AttentionArgs attention_args(int32_t layer) const {
    const ModelShape& s = model.shape;
    AttentionArgs t;
    t.sm_version = device.major * 10 + device.minor, t.head_dim = s.head_dim;
    t.q_heads = s.q_heads, t.kv_heads = s.kv_heads;
    t.q = q.get(), t.out = a.get(), t.q_stride = t.out_stride = s.q_heads * s.head_dim;
    t.k = k[static_cast<size_t>(layer)].get(), t.v = v[static_cast<size_t>(layer)].get();
    t.block_stride = block_bytes(), t.table = table.get<int32_t>(), t.table_stride = pages;
    t.kv_len = kv_len.get<int32_t>(), t.pos = pos.get<int32_t>();
    t.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
    t.counts = counts.get<int32_t>(), t.segments = segments.get<AttentionSegment>();
    t.workers =
        std::min(attention_workers_per_sm(s.head_dim) * device.sms, static_cast<int32_t>(plan.segments.size()));
    t.taken = taken.get<uint32_t>(), t.merges = merges.get<AttentionMerge>();
    t.merge_count = static_cast<int32_t>(plan.merges.size()), t.merge_rows = std::max(plan.unit_rows, 1);
    t.partial = partial.get<float>(), t.partial_slots = plan.partial_slots;
    return t;
  }
  void attention(int32_t layer) const {
    if (has(kRope)) must(launch_rope_append(rope_args(layer), on()));
    if (has(kAttention)) must(launch_attention_tiles(attention_args(layer), on()));
  }
  void choose() const {
    if (!has(kChoice)) return;
    if (!options.sampled) {
      ArgmaxArgs args;
      args.type = LogitsType::kBF16, args.logits = logits.get(), args.row_stride = args.vocab = model.shape.vocab;
      args.rows = sequences, args.ids = ids.get<int32_t>(), args.scratch = scratch.get();
      must(launch_argmax(args, on()));
      return;
    }
    must(launch_widen({DType::kBF16, logits.get(), wide.get<float>(), int64_t{sequences} * model.shape.vocab}, on()));
    SampleArgs args;
    args.logits = wide.get<float>(), args.row_stride = args.vocab = model.shape.vocab, args.rows = sequences;
    args.params = params.get<SampleParams>(), args.ids = ids.get<int32_t>(), args.scratch = scratch.get();
    must(launch_sample(args, on()));
  }

  void record() const {
    const ModelShape& s = model.shape;
    if (has(kStart)) {
      must(launch_advance({pos.get<int32_t>(), kv_len.get<int32_t>(), slot.get<int32_t>(), table.get<int32_t>(),
                           pages, sequences, 16},
                          on()));
      EmbedArgs e;
      e.ids = ids.get<int32_t>(), e.table = model.embedding.get(), e.out = h.get(), e.out_stride = e.dim = s.dim;
      e.tokens = sequences, e.vocab = s.vocab;
      must(launch_embed(e, on()));
    }
    for (int32_t layer = 0; layer < s.layers; ++layer) {
      norm(h, 2 * layer);
      linear(model.qkv, plans[0], layer, n, qkv, nullptr);
      attention(layer);
      linear(model.o, plans[1], layer, a, h, &h);
      norm(h, 2 * layer + 1);
      linear(model.gate_up, plans[2], layer, n, f, nullptr);
      linear(model.down, plans[3], layer, f, h, &h);
    }
    norm(h, 2 * s.layers);
    if (has(kHead)) linear(model.head, plans[4], 0, n, logits, nullptr);
    choose();
  }

  // Bytes that step `i` reads: weights once, the cache of every sequence.
  double bytes(double length) const {
    return static_cast<double>(model.weight_bytes) +
           2.0 * length * sequences * model.shape.layers * model.shape.kv_heads * model.shape.head_dim * 2;
  }
};

// A captured step.
class StepGraph {
 public:
  explicit StepGraph(const Batch& batch) {
    cudaGraph_t graph;
    MUST(cudaStreamBeginCapture(batch.stream, cudaStreamCaptureModeThreadLocal));
    batch.record();
    MUST(cudaStreamEndCapture(batch.stream, &graph));
    MUST(cudaGraphInstantiate(&exec_, graph, 0));
    MUST(cudaGraphDestroy(graph));
  }
  ~StepGraph() { cudaGraphExecDestroy(exec_); }
  StepGraph(const StepGraph&) = delete;
  void launch(cudaStream_t stream) const { MUST(cudaGraphLaunch(exec_, stream)); }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace bora::cuda::bench
