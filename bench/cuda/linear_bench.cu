// Times the linear kernels on a device: each linear of an 8B and a 1B with cold L2 (32 copies in rotation, every
// launch depending on the one before), the chain of the 8B's linears, and the read stream they are measured against.
// One JSON object a line on stdout.
//
//   linear_bench stream | chain FORMAT M... | tiles FORMAT M... | prefill FORMAT M... | shape FORMAT N K M...
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/kernels/linear/linear.h"

namespace {

using namespace bora;
using namespace bora::cuda;

#define MUST(call)                                                                            \
  do {                                                                                        \
    const cudaError_t must_error = (call);                                                    \
    if (must_error != cudaSuccess) {                                                          \
      std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(must_error)); \
      std::exit(1);                                                                           \
    }                                                                                         \
  } while (false)

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

__device__ uint32_t hash(uint64_t i) {
  uint32_t h = static_cast<uint32_t>(i) * 0x9E3779B1u ^ static_cast<uint32_t>(i >> 32) * 0x85EBCA77u;
  h ^= h >> 15, h *= 0x2C1B3C6Du, h ^= h >> 12, h *= 0x297A2D39u, h ^= h >> 15;
  return h;
}

// Random codes of modest size; scales near 0.01; zero points 8.
__global__ void fill_weights(uint32_t* out, uint64_t words, LinearFormat format, uint32_t seed) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += stride) {
    uint32_t h = hash(i + (uint64_t{seed} << 40));
    const int in_block = static_cast<int>(i * 4 % format.block_bytes());
    if (in_block >= format.code_bytes()) {
      const int side = in_block - format.code_bytes();
      if (format.block_scale)
        h = 0x3C23D70Au;
      else
        h = format.zeros && side >= format.groups() * 32 ? 0x43084308u : 0x211F211Fu;
    } else if (format.codes == Codes::k16) {
      h = (h & 0x80FF80FFu) | 0x3C003C00u;
    } else if (format.codes == Codes::kFp8) {
      h &= 0xBFBFBFBFu;
    }
    out[i] = h;
  }
}
__global__ void fill_rows(uint32_t* out, uint64_t words) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += uint64_t{gridDim.x} * blockDim.x) {
    out[i] = (hash(i) & 0x80FF80FFu) | 0x3F003F00u;
  }
}
__global__ void read_stream(const uint4* in, uint64_t vectors, uint32_t* out) {
  uint32_t sum = 0;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 7 * stride < vectors; i += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) v[u] = __ldcs(in + i + u * stride);
#pragma unroll
    for (int u = 0; u < 8; ++u) sum ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  if (sum == 0x12345678u) *out = sum;
}

struct NamedFormat {
  const char* name;
  LinearFormat format;
};
const NamedFormat kFormats[] = {
    {"bf16", {}},
    {"fp8", {Codes::kFp8}},
    {"fp8_block", {Codes::kFp8, 0, false, true}},
    {"int8_g32", {Codes::kInt8, 32}},
    {"int4_g128", {Codes::kInt4, 128}},
    {"int4_g128_zero", {Codes::kInt4, 128, true}},
    {"int4_g32", {Codes::kInt4, 32}},
};

struct Shape {
  const char* name;
  int64_t n, k;
  Gate gate;
};
const Shape kShapes8b[] = {{"qkv", 6144, 4096, Gate::kNone},
                           {"o", 4096, 4096, Gate::kNone},
                           {"gate_up", 28672, 4096, Gate::kSilu},
                           {"down", 4096, 14336, Gate::kNone}};
constexpr int kLayers = 32;

struct Bench {
  DeviceInfo device;
  cudaStream_t stream = nullptr;
  LinearFormat format;
  const char* format_name = "";
  void* x = nullptr;
  void* y[4] = {};
  void* workspace = nullptr;
  double stream_tbs = 4.55;

  void start() {
    Result<DeviceInfo> info = query_device(0);
    must(info.status());
    device = *info;
    MUST(cudaStreamCreate(&stream));
    const size_t bytes = size_t{4096} * 14336 * 2;
    MUST(cudaMalloc(&x, bytes));
    MUST(cudaMalloc(&workspace, static_cast<size_t>(linear_workspace_bytes(device))));
    MUST(cudaMemset(workspace, 0, static_cast<size_t>(linear_workspace_bytes(device))));
    fill_rows<<<264, 256>>>(static_cast<uint32_t*>(x), bytes / 4);
    for (void*& p : y) {
      MUST(cudaMalloc(&p, bytes));
      MUST(cudaMemcpy(p, x, bytes, cudaMemcpyDeviceToDevice));
    }
    MUST(cudaDeviceSynchronize());
  }

  uint8_t* weights(int64_t n, int64_t k, int copies) {
    const uint64_t bytes = static_cast<uint64_t>(packed_bytes(format, n, k)) * copies;
    void* p = nullptr;
    MUST(cudaMalloc(&p, bytes));
    fill_weights<<<1056, 256>>>(static_cast<uint32_t*>(p), bytes / 4, format, static_cast<uint32_t>(n * 7 + k));
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    return static_cast<uint8_t*>(p);
  }

  // Microseconds of one replay of what `record` launches: median of `repeat`.
  template <typename F>
  double time_graph(int repeat, F record) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    record();
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    cudaEvent_t a, b;
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    for (int i = 0; i < 2; ++i) MUST(cudaGraphLaunch(exec, stream));
    std::vector<double> us;
    for (int i = 0; i < repeat; ++i) {
      MUST(cudaEventRecord(a, stream));
      MUST(cudaGraphLaunch(exec, stream));
      MUST(cudaEventRecord(b, stream));
      MUST(cudaEventSynchronize(b));
      float ms = 0;
      MUST(cudaEventElapsedTime(&ms, a, b));
      us.push_back(ms * 1e3);
    }
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaEventDestroy(a));
    MUST(cudaEventDestroy(b));
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
  }

  LinearWeights linear(const Shape& s, const uint8_t* packed) const {
    LinearWeights w;
    w.format = format, w.n = s.n, w.k = s.k, w.packed = packed;
    return w;
  }
  LinearArgs args(const Shape& s, const void* in, int64_t in_stride, void* out, int64_t m) const {
    LinearArgs a;
    a.x = in, a.x_stride = in_stride, a.y = out, a.m = m, a.gate = s.gate;
    a.y_stride = s.gate == Gate::kNone ? s.n : s.n / 2;
    a.workspace = workspace;
    return a;
  }

  double time_shape(const Shape& s, const uint8_t* packed, int copies, int64_t m, const FlatPlan& plan) {
    const int64_t bytes = packed_bytes(format, s.n, s.k);
    return time_graph(5,
                      [&] {
                        for (int i = 0; i < copies; ++i) {
                          must(linear_flat(linear(s, packed + i * bytes), args(s, x, s.k, y[0], m), plan, device,
                                           {stream, true}));
                        }
                      }) /
           copies;
  }

  double time_tile(const Shape& s, const uint8_t* packed, int copies, int64_t m, const TilePlan& plan) {
    const int64_t bytes = packed_bytes(format, s.n, s.k);
    return time_graph(5,
                      [&] {
                        for (int i = 0; i < copies; ++i) {
                          must(linear_tile(linear(s, packed + i * bytes), args(s, x, s.k, y[0], m), plan, device,
                                           {stream, true}));
                        }
                      }) /
           copies;
  }

  // The tile form: every width of tile and both numbers of blocks.
  TilePlan sweep_tiles(const Shape& s, const uint8_t* packed, int copies, int64_t m) {
    TilePlan best;
    double best_us = 1e30;
    for (const int tokens : {8, 16, 32, 64, 128, 192}) {
      if (tokens < 128 && (m > tokens || (tokens > 8 && m <= tokens / 2))) continue;
      if (tokens >= 128 && m <= 64) continue;
      for (const int grid : {0, 2 * device.sms}) {
        for (const bool shares : {true, false}) {
          TilePlan wish;
          wish.tokens = tokens, wish.grid = grid;
          const Result<TilePlan> plan = plan_tile_as(linear(s, packed), m, device, shares, wish);
          if (!plan.ok() || plan->shares != shares || (grid > 0 && plan->grid <= device.sms)) continue;
          if (tokens == 192 && format.codes != Codes::k16) continue;
          const double us = time_tile(s, packed, copies, m, *plan);
          report_tile(s, m, *plan, us, "tile");
          if (us < best_us) best_us = us, best = *plan;
        }
      }
    }
    return best;
  }

  void report_tile(const Shape& s, int64_t m, const TilePlan& p, double us, const char* what) const {
    const double tbs = static_cast<double>(packed_bytes(format, s.n, s.k)) / us * 1e-6;
    std::printf(
        "{\"what\":\"%s\",\"format\":\"%s\",\"linear\":\"%s\",\"m\":%lld,\"tokens\":%d,\"grid\":%d,\"shares\":%d,"
        "\"us\":%.2f,\"share\":%.3f,\"tflops\":%.1f}\n",
        what, format_name, s.name, static_cast<long long>(m), p.tokens, p.grid, p.shares ? 1 : 0, us,
        tbs / stream_tbs, 2e-6 * static_cast<double>(m) * static_cast<double>(s.n) * static_cast<double>(s.k) / us);
    std::fflush(stdout);
  }

  // The chain of the 8B's linears in the tile form and as planned; `layers` of distinct weights.
  void tiles(const std::vector<int64_t>& ms, int layers) {
    uint8_t* packed[4];
    int64_t bytes[4], total = 0;
    double flops = 0;
    for (int i = 0; i < 4; ++i) {
      packed[i] = weights(kShapes8b[i].n, kShapes8b[i].k, layers);
      bytes[i] = packed_bytes(format, kShapes8b[i].n, kShapes8b[i].k);
      total += bytes[i] * layers;
      flops += 2.0 * layers * static_cast<double>(kShapes8b[i].n) * static_cast<double>(kShapes8b[i].k);
    }
    for (const int64_t m : ms) {
      LinearPlan plans[2][4];
      for (int i = 0; i < 4; ++i) {
        plans[0][i].tile = sweep_tiles(kShapes8b[i], packed[i], layers, m);
        plans[1][i] = plan_linear(linear(kShapes8b[i], packed[i]), m, device, true);
      }
      for (int which = 0; which < 2; ++which) {
        const double us = time_graph(7, [&] {
          for (int layer = 0; layer < layers; ++layer) {
            for (int i = 0; i < 4; ++i) {
              const Shape& s = kShapes8b[i];
              const LinearArgs a = args(s, i == 0 ? x : y[i - 1], i == 1 ? 6144 : s.k, i == 3 ? x : y[i], m);
              must(bora::cuda::linear(linear(s, packed[i] + layer * bytes[i]), a, plans[which][i], device,
                                      {stream, true}));
            }
          }
        });
        const double tbs = static_cast<double>(total) / us * 1e-6;
        std::printf("{\"what\":\"%s\",\"format\":\"%s\",\"m\":%lld,\"us\":%.1f,\"share\":%.3f,\"tflops\":%.1f}\n",
                    which == 0 ? "chain_tile" : "chain_linear", format_name, static_cast<long long>(m), us,
                    tbs / stream_tbs, flops * static_cast<double>(m) / us * 1e-6);
        std::fflush(stdout);
      }
    }
    for (uint8_t* p : packed) MUST(cudaFree(p));
  }

  // All cuts of one shape; returns the fastest.
  FlatPlan sweep(const Shape& s, const uint8_t* packed, int copies, int64_t m, bool print) {
    FlatPlan best;
    double best_us = 1e30;
    struct Cut {
      int warps, rows16, per_sm;
    };
    for (const Cut cut : {Cut{8, 1, 1}, Cut{8, 1, 2}, Cut{8, 2, 1}, Cut{8, 2, 2}, Cut{16, 1, 1}, Cut{16, 1, 2},
                          Cut{16, 2, 1}, Cut{24, 1, 1}}) {
      for (const int cluster : {1, 2, 4, 8}) {
        for (const int lead : {0, 3}) {
          FlatPlan wish;
          wish.warps = cut.warps, wish.rows16 = cut.rows16, wish.per_sm = cut.per_sm;
          wish.cluster = cluster, wish.release_lead = lead;
          const Result<FlatPlan> plan = plan_flat_as(linear(s, packed), m, device, wish);
          if (!plan.ok()) continue;
          const double us = time_shape(s, packed, copies, m, *plan);
          if (print) report(s, m, *plan, us, "cut");
          if (us < best_us) best_us = us, best = *plan;
        }
      }
    }
    report(s, m, best, best_us, "best");
    const FlatPlan usual = plan_flat(linear(s, packed), m, device);
    report(s, m, usual, time_shape(s, packed, copies, m, usual), "planned");
    return best;
  }

  void report(const Shape& s, int64_t m, const FlatPlan& p, double us, const char* what) const {
    const double tbs = static_cast<double>(packed_bytes(format, s.n, s.k)) / us * 1e-6;
    std::printf(
        "{\"what\":\"%s\",\"format\":\"%s\",\"linear\":\"%s\",\"n\":%lld,\"k\":%lld,\"m\":%lld,\"rows16\":%d,"
        "\"cluster\":%d,\"per_sm\":%d,"
        "\"warps\":%d,\"grid\":%d,\"lead\":%d,\"x_blocks\":%d,\"shared\":%lld,\"us\":%.2f,\"tbs\":%.3f,\"share\":%."
        "3f}\n",
        what, format_name, s.name, static_cast<long long>(s.n), static_cast<long long>(s.k),
        static_cast<long long>(m), p.rows16, p.cluster, p.per_sm, p.warps, p.grid, p.release_lead, p.x_blocks,
        static_cast<long long>(p.shared_bytes), us, tbs, tbs / stream_tbs);
    std::fflush(stdout);
  }

  void measure_stream() {
    const uint64_t bytes = uint64_t{4} << 30;
    void* p = nullptr;
    MUST(cudaMalloc(&p, bytes));
    MUST(cudaMemset(p, 1, bytes));
    double best = 0;
    for (const int blocks : {132 * 2, 132 * 4, 132 * 8}) {
      const double us = time_graph(7, [&] {
        read_stream<<<blocks, 256, 0, stream>>>(static_cast<const uint4*>(p), bytes / 16,
                                                static_cast<uint32_t*>(y[3]));
      });
      best = std::max(best, static_cast<double>(bytes) / us * 1e-6);
    }
    MUST(cudaFree(p));
    stream_tbs = best;
    std::printf("{\"what\":\"stream\",\"bytes\":%llu,\"tbs\":%.3f}\n", static_cast<unsigned long long>(bytes), best);
  }

  // The linears of 32 layers, each reading what the one before wrote.
  void chain(const std::vector<int64_t>& ms, bool print) {
    uint8_t* packed[4];
    int64_t bytes[4], total = 0;
    for (int i = 0; i < 4; ++i) {
      packed[i] = weights(kShapes8b[i].n, kShapes8b[i].k, kLayers);
      bytes[i] = packed_bytes(format, kShapes8b[i].n, kShapes8b[i].k);
      total += bytes[i] * kLayers;
    }
    for (const int64_t m : ms) {
      FlatPlan best[4];
      for (int i = 0; i < 4; ++i) best[i] = sweep(kShapes8b[i], packed[i], kLayers, m, print);
      const auto time = [&](const FlatPlan(&plans)[4], bool dependent) {
        return time_graph(7, [&] {
          for (int layer = 0; layer < kLayers; ++layer) {
            for (int i = 0; i < 4; ++i) {
              const Shape& s = kShapes8b[i];
              const void* in = i == 0 ? x : y[i - 1];
              const int64_t stride = i == 1 ? 6144 : s.k;
              LinearArgs a = args(s, in, stride, i == 3 ? x : y[i], m);
              must(linear_flat(linear(s, packed[i] + layer * bytes[i]), a, plans[i], device, {stream, dependent}));
            }
          }
        });
      };
      const auto say = [&](const char* what, double us) {
        const double tbs = static_cast<double>(total) / us * 1e-6;
        std::printf("{\"what\":\"%s\",\"format\":\"%s\",\"m\":%lld,\"us\":%.1f,\"tbs\":%.3f,\"share\":%.3f}\n", what,
                    format_name, static_cast<long long>(m), us, tbs, tbs / stream_tbs);
        std::fflush(stdout);
      };
      say("chain_best", time(best, true));
      say("chain_best_no_dependence", time(best, false));
      FlatPlan planned[4];
      for (int i = 0; i < 4; ++i) planned[i] = plan_flat(linear(kShapes8b[i], packed[i]), m, device);
      say("chain_planned", time(planned, true));
      for (const int lead : {0, 2, 5, 10, 20, 1 << 20}) {
        FlatPlan plans[4];
        for (int i = 0; i < 4; ++i) plans[i] = best[i], plans[i].release_lead = lead;
        say(("chain_lead_" + std::to_string(lead)).c_str(), time(plans, true));
      }
    }
    for (uint8_t* p : packed) MUST(cudaFree(p));
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "linear_bench stream | chain FORMAT M... | tiles FORMAT M... | prefill FORMAT M... | "
                 "cuts FORMAT M... | shape FORMAT N K M... | one_tile FORMAT M | "
                 "one FORMAT M ROWS16 WARPS PER_SM CLUSTER\n");
    return 2;
  }
  Bench bench;
  bench.start();
  std::printf("{\"what\":\"device\",\"sms\":%d,\"clusters\":[%d,%d,%d,%d]}\n", bench.device.sms,
              bench.device.clusters[0], bench.device.clusters[1], bench.device.clusters[2], bench.device.clusters[3]);
  bench.measure_stream();
  const std::string mode = argv[1];
  if (mode == "stream") return 0;
  for (const NamedFormat& f : kFormats) {
    if (argc > 2 && std::strcmp(f.name, argv[2]) == 0) bench.format = f.format, bench.format_name = f.name;
  }
  if (*bench.format_name == 0) return 2;
  if (mode == "one" && argc >= 8) {  // for a profiler: each linear twice, in one cut
    FlatPlan wish;
    wish.rows16 = std::atoi(argv[4]), wish.warps = std::atoi(argv[5]), wish.per_sm = std::atoi(argv[6]);
    wish.cluster = std::atoi(argv[7]);
    for (const Shape& s : kShapes8b) {
      const uint8_t* packed = bench.weights(s.n, s.k, 2);
      const Result<FlatPlan> plan = plan_flat_as(bench.linear(s, packed), std::atoll(argv[3]), bench.device, wish);
      must(plan.status());
      for (int i = 0; i < 2; ++i) {
        must(linear_flat(bench.linear(s, packed + i * packed_bytes(bench.format, s.n, s.k)),
                         bench.args(s, bench.x, s.k, bench.y[0], std::atoll(argv[3])), *plan, bench.device,
                         {bench.stream, false}));
      }
    }
    MUST(cudaDeviceSynchronize());
    return 0;
  }
  if (mode == "one_tile" && argc >= 4) {  // the same in the planned tile
    for (const Shape& s : kShapes8b) {
      const uint8_t* packed = bench.weights(s.n, s.k, 2);
      const Result<TilePlan> plan = plan_tile_as(bench.linear(s, packed), std::atoll(argv[3]), bench.device, true, {});
      must(plan.status());
      for (int i = 0; i < 2; ++i) {
        must(linear_tile(bench.linear(s, packed + i * packed_bytes(bench.format, s.n, s.k)),
                         bench.args(s, bench.x, s.k, bench.y[0], std::atoll(argv[3])), *plan, bench.device,
                         {bench.stream, false}));
      }
    }
    MUST(cudaDeviceSynchronize());
    return 0;
  }
  std::vector<int64_t> ms;
  const int first = mode == "shape" ? 5 : 3;
  for (int i = first; i < argc; ++i) ms.push_back(std::atoll(argv[i]));
  if (mode == "shape") {
    const Shape s{"shape", std::atoll(argv[3]), std::atoll(argv[4]), Gate::kNone};
    uint8_t* packed = bench.weights(s.n, s.k, 16);
    for (const int64_t m : ms) bench.sweep(s, packed, 16, m, false);
  } else if (mode == "tiles") {
    bench.tiles(ms, kLayers);
  } else if (mode == "prefill") {
    bench.tiles(ms, 2);
  } else {
    bench.chain(ms, mode == "cuts");
  }
  return 0;
}
