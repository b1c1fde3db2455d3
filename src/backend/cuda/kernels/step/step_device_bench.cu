// Step kernels bench: JSON lines, us a launch from a graph of 32 dependent launches; buffers rotate beyond
// the L2.
#include "backend/cuda/kernels/attention/device_harness.cuh"
#include "backend/cuda/kernels/attention/device_time.cuh"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda::harness {
namespace {

void line(const char* name, int rows, double us, double bytes) {
  std::printf(
      "{\"bench\": \"step\", \"kernel\": \"%s\", \"rows\": %d, \"us\": %.2f, \"bytes\": %.0f, \"tb_s\": "
      "%.3f}\n",
      name, rows, us, bytes, bytes / us / 1e6);
  std::fflush(stdout);
}

void logits_kernels(int rows) {
  const int vocab = 128256, copies = std::max(2, 320 / rows);
  std::vector<float> host(int64_t{std::min(rows, 8)} * vocab);
  for (size_t i = 0; i < host.size(); ++i) host[i] = content(3, 0, i, 0, 0) * 6;
  DeviceArray<float> logits(int64_t{rows} * vocab * copies), chosen(rows), top_lp(rows * 20);
  for (int64_t at = 0; at < static_cast<int64_t>(logits.size()); at += host.size()) {
    BORA_CUDA_OK(cudaMemcpy(logits.get() + at, host.data(), std::min<size_t>(host.size(), logits.size() - at) * 4,
                            cudaMemcpyHostToDevice));
  }
  DeviceArray<int32_t> ids(rows), top_ids(rows * 20);
  DeviceArray<uint64_t> scratch(std::vector<uint64_t>(rows * 2, 0));
  const double bytes = 4.0 * rows * vocab;
  const auto at = [&](int i) { return logits.get() + int64_t{i % copies} * rows * vocab; };
  line("argmax", rows,
       time_us(32,
               [&](int i, cudaStream_t s) {
                 check(launch_argmax({at(i), vocab, rows, vocab, ids.get(), scratch.get()}, {s, true}));
               }),
       bytes);
  struct Kind {
    const char* name;
    int k;
    float p, min_p;
  };
  for (const Kind& kind : {Kind{"sample top-k 50 top-p 0.9", 50, 0.9f, 0}, Kind{"sample temperature only", 0, 1, 0},
                           Kind{"sample top-p 0.9 only", 0, 0.9f, 0}, Kind{"sample min-p 0.05", 0, 1, 0.05f},
                           Kind{"sample top-k 1000 top-p 0.9", 1000, 0.9f, 0}}) {
    std::vector<SampleParams> params(rows);
    for (int r = 0; r < rows; ++r) {
      params[r].temperature = 0.8f, params[r].top_k = kind.k, params[r].top_p = kind.p, params[r].min_p = kind.min_p;
      params[r].seed = r, params[r].position = 5;
    }
    DeviceArray<SampleParams> d(params);
    line(kind.name, rows,
         time_us(32,
                 [&](int i, cudaStream_t s) {
                   check(launch_sample({at(i), vocab, rows, vocab, d.get(), ids.get(), scratch.get()}, {s, true}));
                 }),
         bytes);
  }
  line("logprobs top 20", rows,
       time_us(32,
               [&](int i, cudaStream_t s) {
                 check(launch_logprobs(
                     {at(i), vocab, rows, vocab, 20, ids.get(), chosen.get(), top_ids.get(), top_lp.get()},
                     {s, true}));
               }),
       bytes);
}

void row_kernels(int tokens) {
  const int dim = 4096, ffn = 14336, qh = 32, kvh = 8, hd = 128, width = (qh + 2 * kvh) * hd;
  const int copies = tokens > 1000 ? 2 : 16;
  const DType t = DType::kBF16;
  DeviceArray<uint16_t> x(int64_t{tokens} * 2 * ffn * copies), y(int64_t{tokens} * 2 * ffn * copies), w(ffn * 2);
  BORA_CUDA_OK(cudaMemset(x.get(), 0x3c, x.size() * 2));
  BORA_CUDA_OK(cudaMemset(w.get(), 0x3c, w.size() * 2));
  const auto in = [&](int i) { return x.get() + int64_t{i % copies} * tokens * 2 * ffn; };
  const auto out = [&](int i) { return y.get() + int64_t{i % copies} * tokens * 2 * ffn; };
  NormArgs n;
  n.dtype = t, n.weight = w.get(), n.in_stride = n.out_stride = n.residual_stride = dim, n.tokens = tokens,
  n.dim = dim;
  line("norm 4096", tokens,
       time_us(32,
               [&](int i, cudaStream_t s) {
                 n.in = in(i), n.out = out(i);
                 check(launch_norm(n, {s, true}));
               }),
       4.0 * tokens * dim);
  line("add + norm 4096", tokens,
       time_us(32,
               [&](int i, cudaStream_t s) {
                 n.in = in(i), n.out = out(i), n.residual = in(i) + int64_t{tokens} * dim,
                 n.residual_out = out(i) + int64_t{tokens} * dim;
                 check(launch_norm(n, {s, true}));
               }),
       8.0 * tokens * dim);
  line("silu gate 14336", tokens,
       time_us(32,
               [&](int i, cudaStream_t s) {
                 check(launch_activation(
                     {t, Activation::kSilu, in(i), in(i) + ffn, out(i), 2 * ffn, 2 * ffn, ffn, tokens, ffn},
                     {s, true}));
               }),
       6.0 * tokens * ffn);
  std::vector<int32_t> slots(tokens), pos(tokens);
  for (int i = 0; i < tokens; ++i) slots[i] = i, pos[i] = i % 4096;
  DeviceArray<int32_t> dslots(slots), dpos(pos);
  DeviceArray<float> table(std::vector<float>(4096 * hd, 0.5f));
  const int blocks = (tokens + 15) / 16;
  DeviceArray<uint16_t> k(int64_t{blocks} * 16 * kvh * hd), v(k.size());
  RopeAppendArgs r;
  r.dtype = t, r.qkv_stride = width, r.q_stride = qh * hd, r.rope = table.get(), r.rot_dim = hd, r.pos = dpos.get();
  r.slot = dslots.get(), r.k = k.get(), r.v = v.get(), r.block_stride = kv_block_bytes(hd, 16, kvh);
  r.tokens = tokens, r.q_heads = qh, r.kv_heads = kvh, r.head_dim = hd;
  line("rope + append", tokens,
       time_us(32,
               [&](int i, cudaStream_t s) {
                 r.qkv = in(i), r.q_out = out(i);
                 check(launch_rope_append(r, {s, true}));
               }),
       4.0 * tokens * width);
  line("embed 4096", tokens,
       time_us(32,
               [&](int i, cudaStream_t s) {
                 check(launch_embed({t, dslots.get(), x.get(), out(i), dim, tokens, tokens, dim, 1.0f}, {s, true}));
               }),
       4.0 * tokens * dim);
}

}  // namespace
}  // namespace bora::cuda::harness

int main() {
  using namespace bora::cuda::harness;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("step bench: skipped, no CUDA device\n");
    return 77;
  }
  for (int rows : {1, 16, 64}) logits_kernels(rows);
  for (int tokens : {1, 64, 8192}) row_kernels(tokens);
  return 0;
}
