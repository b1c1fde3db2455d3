// Attention bench: JSON lines. Every time stands beside its share of the read stream measured in the same run
// (decode) or its TFLOP/s (prefill). Caches rotate so that no launch finds its keys in the L2; launches are
// replayed from one graph.
#include "backend/cuda/kernels/attention/device_harness.cuh"
#include "backend/cuda/kernels/attention/device_time.cuh"

namespace bora::cuda::harness {
namespace {

__global__ void read_stream(const uint4* data, int64_t count, uint4* sink) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 7 * step < count; i += 8 * step) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = __ldcs(data + i + j * step);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum.x ^= v[j].x, sum.y ^= v[j].y, sum.z ^= v[j].z, sum.w ^= v[j].w;
  }
  if (sum.x == 0x12345678 && sum.y == 1) *sink = sum;
}

// The same, in pieces of 4 KB at random places: what a paged cache of this block can give at most.
__global__ void read_pieces(const uint4* data, const int32_t* order, int pieces, uint4* sink) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  const int lane = threadIdx.x % 32;
  for (int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < pieces; i += gridDim.x * blockDim.x / 32) {
    const uint4* from = data + int64_t{order[i]} * 256 + lane;
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = __ldcs(from + j * 32);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum.x ^= v[j].x, sum.y ^= v[j].y, sum.z ^= v[j].z, sum.w ^= v[j].w;
  }
  if (sum.x == 0x12345678 && sum.y == 1) *sink = sum;
}

__global__ void fill_random(uint16_t* data, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    uint64_t h = i * 0x9e3779b97f4a7c15u;
    h ^= h >> 30, h *= 0xbf58476d1ce4e5b9u, h ^= h >> 27;
    float x = 0;
    for (int j = 0; j < 4; ++j) x += static_cast<float>((h >> (j * 16)) & 0xffff) / 65536.0f - 0.5f;
    const __nv_bfloat16 v = __float2bfloat16(x * 1.73f);
    data[i] = *reinterpret_cast<const uint16_t*>(&v);
  }
}

double stream_tb_s(int64_t bytes, int launches) {
  DeviceArray<uint4> data(bytes / 16 * 2), sink(1);
  fill_random<<<1024, 256>>>(reinterpret_cast<uint16_t*>(data.get()), bytes);
  const double us = time_us(launches, [&](int i, cudaStream_t s) {
    read_stream<<<132 * 8, 256, 0, s>>>(data.get() + i % 2 * (bytes / 16), bytes / 16, sink.get());
  });
  return bytes / us / 1e6;
}

double pieces_tb_s(int64_t bytes, int launches) {
  DeviceArray<uint4> data(bytes / 16 * 2), sink(1);
  fill_random<<<1024, 256>>>(reinterpret_cast<uint16_t*>(data.get()), bytes);
  const int pieces = static_cast<int>(bytes / 4096);
  std::vector<int32_t> order(2 * pieces);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  DeviceArray<int32_t> device_order(order);
  const double us = time_us(launches, [&](int i, cudaStream_t s) {
    read_pieces<<<132 * 8, 256, 0, s>>>(data.get(), device_order.get() + i % 2 * pieces, pieces, sink.get());
  });
  return bytes / us / 1e6;
}

double measured_stream = 0;
int sms = 132;
std::string only;  // cases whose name holds this

struct Step {
  std::vector<int> lengths;
  int tokens = 1;         // rows of each sequence, at its end
  bool in_order = false;  // blocks one behind the other instead of shuffled
};

void bench(const std::string& name, const Model& m, const Step& step, Form form, int unit_rows, int workers) {
  if (name.find(only) == std::string::npos) return;
  std::vector<AttentionSequence> sequences;
  std::vector<int32_t> lengths, pos, begin;
  int blocks = 0, pages = 1, total = 0;
  for (int n : step.lengths) {
    const int tokens = std::min(step.tokens, n);
    sequences.push_back({total, tokens, n, n - tokens, false});
    begin.push_back(total);
    for (int i = 0; i < tokens; ++i) pos.push_back(n - tokens + i);
    lengths.push_back(n);
    total += tokens;
    blocks += (n + m.block_tokens - 1) / m.block_tokens;
    pages = std::max(pages, (n + m.block_tokens - 1) / m.block_tokens);
  }
  begin.push_back(total);
  const int64_t block_bytes = kv_block_bytes(m.head_dim, m.block_tokens, m.kv_heads);
  const int64_t cache_bytes = block_bytes * blocks;
  const int copies =
      static_cast<int>(std::max<int64_t>(form == Form::kPrefill ? 1 : 2, (int64_t{400} << 20) / (2 * cache_bytes)));
  std::vector<int> ids(int64_t{blocks} * copies);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
  if (!step.in_order) std::shuffle(ids.begin(), ids.end(), std::mt19937(7));
  std::vector<int32_t> table(copies * lengths.size() * pages, 0);
  size_t next = 0;
  for (int c = 0; c < copies; ++c) {
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int b = 0; b < (lengths[s] + m.block_tokens - 1) / m.block_tokens; ++b) {
        table[(c * lengths.size() + s) * pages + b] = ids[next++];
      }
    }
  }
  DeviceArray<uint16_t> k(cache_bytes / 2 * copies), v(cache_bytes / 2 * copies),
      q(int64_t{total} * m.q_heads * m.head_dim), out(q.size());
  for (const auto* a : {&k, &v, &q}) fill_random<<<2048, 256>>>(a->get(), a->size());
  BORA_CUDA_OK(cudaDeviceSynchronize());
  AttentionShape shape{
      m.q_heads, m.kv_heads, m.window, m.causal, workers, unit_rows, form == Form::kPrefill ? 128 : 0, 0};
  Result<AttentionPlan> planned = plan_attention(sequences, shape);
  if (!planned.ok()) std::exit(1);
  const AttentionPlan& plan = *planned;
  DeviceArray<int32_t> dtable(table), dlen(lengths), dpos(pos);
  DeviceArray<AttentionSegment> segments(plan.segments);
  DeviceArray<int32_t> counts(std::vector<int32_t>(plan.counts.begin(), plan.counts.end()));
  DeviceArray<uint32_t> taken(std::vector<uint32_t>(2, 0));
  DeviceArray<AttentionMerge> merges(plan.merges);
  DeviceArray<AttentionPrefill> prefill(plan.prefill);
  DeviceArray<float> partial(attention_workspace_bytes(plan.partial_slots, unit_rows, m.head_dim) / 4);
  AttentionArgs a;
  a.sm_version = m.sm, a.dtype = m.dtype, a.head_dim = m.head_dim, a.q_heads = m.q_heads, a.kv_heads = m.kv_heads;
  a.q = q.get(), a.out = out.get(), a.q_stride = a.out_stride = m.q_heads * m.head_dim;
  a.k = k.get(), a.v = v.get(), a.block_stride = block_bytes, a.block_tokens = m.block_tokens;
  a.table = dtable.get(), a.table_stride = pages, a.kv_len = dlen.get(), a.pos = dpos.get();
  a.scale = m.scale, a.causal = m.causal;
  a.segments = segments.get(), a.workers = workers, a.counts = counts.get(), a.taken = taken.get();
  a.merges = merges.get(), a.merge_count = static_cast<int>(plan.merges.size()),
  a.merge_rows = std::max(plan.unit_rows, 1);
  a.prefill = prefill.get(), a.prefill_count = static_cast<int>(plan.prefill.size());
  a.partial = partial.get(), a.partial_slots = plan.partial_slots, a.unit_rows = unit_rows;
  const int launches = form == Form::kPrefill ? 4 : std::max(8, copies * 2);
  const double us = time_us(launches, [&](int i, cudaStream_t s) {
    a.table = dtable.get() + i % copies * (lengths.size() * pages);
    if (!plan.segments.empty()) check(launch_attention_tiles(a, {s, true}));
    if (a.prefill_count > 0) check(launch_attention_prefill(a, {s, true}));
  });
  int64_t keys = 0;
  double flops = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    keys += lengths[s];
    for (int i = 0; i < sequences[s].tokens; ++i) flops += 4.0 * (sequences[s].pos + i + 1) * m.head_dim * m.q_heads;
  }
  const double bytes = 2.0 * keys * m.kv_heads * m.head_dim * 2;
  std::printf(
      "{\"bench\": \"attention\", \"case\": \"%s\", \"form\": \"%s\", \"dtype\": \"%s\", \"head_dim\": %d, "
      "\"workers\": %d, "
      "\"unit_rows\": %d, \"us\": %.2f, \"kv_bytes\": %.0f, \"tb_s\": %.3f, \"share_of_read_stream\": %.3f, "
      "\"tflop_s\": %.1f, \"splits\": %d, \"slots\": %d}\n",
      name.c_str(), form_name(form), std::string(dtype_name(m.dtype)).c_str(), m.head_dim, workers, unit_rows, us,
      bytes, bytes / us / 1e6, bytes / us / 1e6 / measured_stream, flops / us / 1e6, a.merge_count,
      plan.partial_slots);
  std::fflush(stdout);
}

void run_all() {
  measured_stream = stream_tb_s(int64_t{only.empty() ? 4 : 1} << 30, 4);
  if (only.empty()) {
    std::printf(
        "{\"bench\": \"read_stream\", \"tb_s_4gib\": %.3f, \"tb_s_128mib\": %.3f, "
        "\"tb_s_4gib_in_random_4kib\": %.3f, "
        "\"tb_s_1gib_in_random_4kib\": %.3f}\n",
        measured_stream, stream_tb_s(int64_t{128} << 20, 16), pieces_tb_s(int64_t{4} << 30, 4),
        pieces_tb_s(int64_t{1} << 30, 4));
  }
  Model m;
  m.q_heads = 32, m.kv_heads = 8, m.scale = 0.08838835f;
  std::vector<int> mixed;
  for (int i = 0; i < 64; ++i) mixed.push_back(static_cast<int>(128 * std::pow(128.0, i / 63.0)));
  std::shuffle(mixed.begin(), mixed.end(), std::mt19937(3));
  const int w = 2 * sms;
  bench("1 x 32k", m, {{32768}}, Form::kTile16, 16, w);
  bench("16 x 2k", m, {std::vector<int>(16, 2048)}, Form::kTile16, 16, w);
  bench("64 mixed 128..16k", m, {mixed}, Form::kTile16, 16, w);
  bench("1 x 32k, blocks in order", m, {{32768}, 1, true}, Form::kTile16, 16, w);
  bench("4 x 32k", m, {std::vector<int>(4, 32768)}, Form::kTile16, 16, w);
  Model portable = m;
  portable.sm = 80;
  bench("1 x 32k, portable", portable, {{32768}}, Form::kTile16, 16, w);
  bench("16 x 2k, portable", portable, {std::vector<int>(16, 2048)}, Form::kTile16, 16, w);
  bench("64 mixed, portable", portable, {mixed}, Form::kTile16, 16, w);
  bench("1 x 32k, one block an SM", m, {{32768}}, Form::kTile16, 16, sms);
  bench("1 x 2k", m, {{2048}}, Form::kTile16, 16, w);
  bench("1 x 64", m, {{64}}, Form::kTile16, 16, w);
  bench("64 x 128", m, {std::vector<int>(64, 128)}, Form::kTile16, 16, w);
  bench("verify 4 x 8k by 4", m, {std::vector<int>(4, 8192), 4}, Form::kTile16, 16, w);
  bench("verify 4 x 8k by 16", m, {std::vector<int>(4, 8192), 16}, Form::kTileWide, 64, w);
  for (int d : {64, 80, 96, 256}) {
    Model other = m;
    other.head_dim = d;
    bench("16 x 2k", other, {std::vector<int>(16, 2048)}, Form::kTile16, 16, attention_workers_per_sm(d) * sms);
  }
  bench("prefill causal 8k", m, {{8192}, 8192}, Form::kPrefill, 16, w);
  bench("prefill causal 2k", m, {{2048}, 2048}, Form::kPrefill, 16, w);
  bench("prefill 512 on 8k", m, {{8192}, 512}, Form::kPrefill, 16, w);
  bench("prefill causal 8k", m, {{8192}, 8192}, Form::kTileWide, 64, w);
  Model half = m;
  half.dtype = DType::kF16;
  bench("prefill causal 8k", half, {{8192}, 8192}, Form::kPrefill, 16, w);
  Model d64 = m;
  d64.head_dim = 64, d64.scale = 0.125f;
  bench("prefill causal 8k", d64, {{8192}, 8192}, Form::kPrefill, 16, w);
}

}  // namespace
}  // namespace bora::cuda::harness

int main(int argc, char** argv) {
  cudaDeviceProp device;
  if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    std::printf("attention bench: skipped, no CUDA device\n");
    return 77;
  }
  bora::cuda::harness::sms = device.multiProcessorCount;
  if (argc > 1) bora::cuda::harness::only = argv[1];
  bora::cuda::harness::run_all();
  return 0;
}
