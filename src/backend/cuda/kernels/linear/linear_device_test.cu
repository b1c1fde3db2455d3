// Linear kernels on a device: against float64 sums of the same weights, and bit for bit over rows, forms and cuts.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "backend/cuda/kernels/linear/linear.h"
#include "backend/cuda/kernels/linear/pack.h"
#include "tensor/half.h"

namespace bora::cuda {
namespace {

struct Case {
  const char* name;
  LinearFormat format;
  Act16 type = Act16::kBf16;
};
const Case kCases[] = {
    {"bf16", {}},
    {"f16", {}, Act16::kF16},
    {"fp8", {Codes::kFp8}},
    {"fp8_block", {Codes::kFp8, 0, false, true}},
    {"int8_g32", {Codes::kInt8, 32}},
    {"int4_g128", {Codes::kInt4, 128}},
    {"int4_g128_zero", {Codes::kInt4, 128, true}},
    {"int4_g32", {Codes::kInt4, 32}},
    {"int4_g32_zero", {Codes::kInt4, 32, true}},
};

class Buffer {
 public:
  explicit Buffer(size_t bytes, int fill = 0xFF) : bytes_(bytes) {
    EXPECT_EQ(cudaMalloc(&data_, bytes + 16), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, fill, bytes + 16), cudaSuccess);  // NaN: what is not written shows
  }
  template <typename T>
  explicit Buffer(const std::vector<T>& from) : Buffer(from.size() * sizeof(T)) {
    EXPECT_EQ(cudaMemcpy(data_, from.data(), bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  void* get() const { return data_; }
  std::vector<uint16_t> read16() const {
    std::vector<uint16_t> out(bytes_ / 2);
    EXPECT_EQ(cudaMemcpy(out.data(), data_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return out;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

float e4m3(uint8_t c) {
  const int exponent = c >> 3 & 15, mantissa = c & 7;
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(8.f + static_cast<float>(mantissa), exponent - 10);
  return c & 0x80 ? -value : value;
}

struct Problem {
  Case c;
  int64_t n = 0, k = 0;
  std::vector<uint8_t> packed;
  std::vector<float> dense;  // decoded weights, [n, k], exact in float32 but for the product with the scale

  uint16_t to16(float v) const { return c.type == Act16::kF16 ? f32_to_f16(v) : f32_to_bf16(v); }
  float from16(uint16_t v) const { return c.type == Act16::kF16 ? f16_to_f32(v) : bf16_to_f32(v); }
};

Problem make_problem(const Case& c, int64_t n, int64_t k, uint32_t seed) {
  Problem p{c, n, k, {}, {}};
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  PlainWeights w;
  w.n = n, w.k = k;
  std::vector<uint16_t> codes16, scales;
  std::vector<uint8_t> codes8, zeros;
  std::vector<float> blocks;
  const int64_t groups = c.format.group == 0 ? 0 : (k + c.format.group - 1) / c.format.group;
  for (int64_t i = 0; i < n * k; ++i) {
    if (c.format.codes == Codes::k16) {
      float v = normal(rng) * 0.05f;
      if (i % 97 == 0) v *= 100.f;
      if (i % 89 == 0) v = 0.f;
      if (i % 83 == 0) v *= 1e-6f;
      codes16.push_back(p.to16(v));
    } else if (c.format.codes == Codes::kInt4) {
      codes8.push_back(static_cast<uint8_t>(rng() % 16));
    } else {
      uint8_t code = static_cast<uint8_t>(rng() % 256);
      if (c.format.codes == Codes::kFp8 && (code & 0x7F) == 0x7F) code = 0;
      codes8.push_back(code);
    }
  }
  for (int64_t i = 0; i < n * groups; ++i) {
    scales.push_back(f32_to_f16(0.001f + 0.01f * std::fabs(normal(rng))));
    if (c.format.zeros) zeros.push_back(static_cast<uint8_t>(rng() % 16));
  }
  if (c.format.block_scale) {
    for (int64_t i = 0; i < ((n + 127) / 128) * ((k + 127) / 128); ++i)
      blocks.push_back(0.01f * std::fabs(normal(rng)));
  }
  w.codes16 = codes16, w.codes8 = codes8, w.scales = scales, w.zeros = zeros, w.block_scales = blocks;
  Result<std::vector<uint8_t>> packed = pack_linear(c.format, w);
  EXPECT_TRUE(packed.ok()) << packed.status().message();
  p.packed = *packed;
  const LinearShape shape = linear_shape(c.format, n, k);
  for (int64_t i = 0; i < n * k; ++i) {
    const PackedWeight u = unpack_one(c.format, shape, p.packed, i / k, i % k);
    float v;
    if (c.format.codes == Codes::k16)
      v = p.from16(u.code);
    else if (c.format.codes == Codes::kFp8)
      v = e4m3(static_cast<uint8_t>(u.code)) * u.scale;
    else if (c.format.codes == Codes::kInt8)
      v = static_cast<float>(static_cast<int8_t>(u.code)) * u.scale;
    else
      v = static_cast<float>(u.code - u.zero) * u.scale;
    p.dense.push_back(v);
  }
  return p;
}

std::vector<uint16_t> make_rows(const Problem& p, int64_t m, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> x;
  for (int64_t i = 0; i < m * p.k; ++i) x.push_back(p.to16(i % 101 == 0 ? normal(rng) * 50 : normal(rng)));
  return x;
}

bool device_or_skip(DeviceInfo* device) {
  const Result<DeviceInfo> info = query_device(0);
  if (!info.ok()) return false;
  *device = *info;
  return true;
}
#define DEVICE_OR_SKIP(device) \
  DeviceInfo device;           \
  if (!device_or_skip(&device)) GTEST_SKIP() << "no CUDA device"

// y of rows [0, m) of x under a plan.
std::vector<uint16_t> run(const Problem& p, const Buffer& weights, const Buffer& x, int64_t m, const FlatPlan& plan,
                          const DeviceInfo& device) {
  Buffer y(static_cast<size_t>(m * p.n * 2));
  LinearWeights w{p.c.format, p.c.type, p.n, p.k, weights.get(), nullptr, nullptr};
  LinearArgs a;
  a.x = x.get(), a.x_stride = (p.k + 7) / 8 * 8, a.y = y.get(), a.y_stride = p.n, a.m = m;
  const Status status = linear_flat(w, a, plan, device, {});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return y.read16();
}

// The same in the tile form; the workspace is handed on dirty from launch to launch, as in an engine.
std::vector<uint16_t> run_tile(const Problem& p, const Buffer& weights, const Buffer& x, int64_t m,
                               const TilePlan& plan, const DeviceInfo& device, const Buffer& workspace) {
  Buffer y(static_cast<size_t>(m * p.n * 2));
  LinearWeights w{p.c.format, p.c.type, p.n, p.k, weights.get(), nullptr, nullptr};
  LinearArgs a;
  a.x = x.get(), a.x_stride = (p.k + 7) / 8 * 8, a.y = y.get(), a.y_stride = p.n, a.m = m;
  a.workspace = workspace.get();
  const Status status = linear_tile(w, a, plan, device, {});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return y.read16();
}

FlatPlan plan_of(const Problem& p, int64_t m, const DeviceInfo& device) {
  LinearWeights w;
  w.format = p.c.format, w.type = p.c.type, w.n = p.n, w.k = p.k;
  return plan_flat(w, m, device);
}

// |y - ref| <= one rounding of y + 4e-6 of the sum of absolute products (float32 accumulation of the tensor core).
void expect_close(const Problem& p, const std::vector<uint16_t>& x, const std::vector<uint16_t>& y, int64_t m) {
  int bad = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t r = 0; r < p.n; ++r) {
      double ref = 0, absolute = 0;
      for (int64_t j = 0; j < p.k; ++j) {
        const double t = static_cast<double>(p.dense[r * p.k + j]) * p.from16(x[i * p.k + j]);
        ref += t;
        absolute += std::fabs(t);
      }
      const double unit = p.c.type == Act16::kF16 ? 0x1p-11 : 0x1p-8;
      const double got = p.from16(y[i * p.n + r]);
      if (!(std::fabs(got - ref) <= unit * std::fabs(ref) + 4e-6 * absolute)) {
        if (++bad < 4) ADD_FAILURE() << p.c.name << " row " << i << " output " << r << ": " << got << " for " << ref;
      }
    }
  }
  EXPECT_EQ(bad, 0) << p.c.name << " [" << p.n << ", " << p.k << "] m " << m;
}

TEST(LinearDevice, AgreesWithFloat64OnOddShapes) {
  DEVICE_OR_SKIP(device);
  struct Shape {
    int64_t n, k, m;
  };
  for (const Shape s : {Shape{100, 200, 3}, Shape{16, 16, 1}, Shape{72, 136, 17}, Shape{130, 1288, 9},
                        Shape{64, 2048, 70}, Shape{33, 520, 33}, Shape{512, 3584, 2}}) {
    for (const Case& c : kCases) {
      const Problem p = make_problem(c, s.n, s.k, 7);
      const std::vector<uint16_t> x = make_rows(p, s.m, 8);
      const Buffer weights(p.packed), rows(x);
      expect_close(p, x, run(p, weights, rows, s.m, plan_of(p, s.m, device), device), s.m);
    }
  }
}

TEST(LinearDevice, ARowHasTheSameBitsInAnyBatch) {
  DEVICE_OR_SKIP(device);
  for (const Case& c : kCases) {
    const Problem p = make_problem(c, 208, 1280, 11);
    const std::vector<uint16_t> x = make_rows(p, 1024, 12);
    const Buffer weights(p.packed), rows(x);
    const std::vector<uint16_t> all = run(p, weights, rows, 1024, plan_of(p, 1024, device), device);
    for (const int64_t m : {1, 2, 3, 7, 8, 16, 17, 64, 65, 256}) {
      const std::vector<uint16_t> some = run(p, weights, rows, m, plan_of(p, m, device), device);
      EXPECT_TRUE(std::memcmp(some.data(), all.data(), some.size() * 2) == 0) << c.name << " m " << m;
    }
  }
}

TEST(LinearDevice, EveryCutGivesTheSameBits) {
  DEVICE_OR_SKIP(device);
  for (const Case& c : kCases) {
    const Problem p = make_problem(c, 328, 4224, 13);
    const std::vector<uint16_t> x = make_rows(p, 64, 14);
    const Buffer weights(p.packed), rows(x);
    LinearWeights w;
    w.format = c.format, w.type = c.type, w.n = p.n, w.k = p.k;
    for (const int64_t m : {1, 13, 32, 64}) {
      const std::vector<uint16_t> first = run(p, weights, rows, m, plan_of(p, m, device), device);
      int cuts = 0;
      for (const int warps : {8, 16, 24, 208, 216}) {  // 200 more: two row tiles a warp
        for (const int cluster : {1, 2, 4, 8}) {
          if (cluster > 1 && !device.sm90()) continue;
          FlatPlan wish;
          wish.warps = warps % 200, wish.rows16 = warps > 200 ? 2 : 1;
          wish.cluster = cluster, wish.release_lead = 2;
          const Result<FlatPlan> plan = plan_flat_as(w, m, device, wish);
          if (!plan.ok()) continue;
          ++cuts;
          EXPECT_EQ(run(p, weights, rows, m, *plan, device), first)
              << c.name << " m " << m << " warps " << warps << " cluster " << cluster;
        }
      }
      EXPECT_GT(cuts, 0);
    }
  }
}

// Forms, widths of tiles and runs of pieces: for every row the bits of the flat form.
TEST(LinearDevice, TheTileFormHasTheBitsOfTheFlatForm) {
  DEVICE_OR_SKIP(device);
  if (!device.sm90()) GTEST_SKIP() << "compute capability 9.0 only";
  const Buffer workspace(static_cast<size_t>(linear_workspace_bytes(device)), 0);
  struct Shape {
    int64_t n, k;
  };
  for (const Case& c : kCases) {
    for (const Shape s : {Shape{208, 1280}, Shape{520, 4224}, Shape{33, 520}, Shape{100, 2056}, Shape{1312, 2048}}) {
      const Problem p = make_problem(c, s.n, s.k, 31);
      const std::vector<uint16_t> x = make_rows(p, 450, 32);
      const Buffer weights(p.packed), rows(x);
      const std::vector<uint16_t> all = run(p, weights, rows, 450, plan_of(p, 450, device), device);
      LinearWeights w;
      w.format = c.format, w.type = c.type, w.n = p.n, w.k = p.k;
      int forms = 0;
      for (const int64_t m : {1, 2, 3, 7, 8, 9, 16, 17, 33, 64, 65, 128, 193, 450}) {
        for (const int grid : {0, 5, 13, 31}) {
          for (const bool shares : {true, false}) {
            TilePlan wish;
            wish.grid = grid;
            const Result<TilePlan> plan = plan_tile_as(w, m, device, shares, wish);
            ASSERT_TRUE(plan.ok()) << plan.status().message();
            if (shares && !plan->shares) continue;
            ++forms;
            const std::vector<uint16_t> y = run_tile(p, weights, rows, m, *plan, device, workspace);
            ASSERT_TRUE(std::memcmp(y.data(), all.data(), y.size() * 2) == 0)
                << c.name << " [" << p.n << ", " << p.k << "] m " << m << " tokens " << plan->tokens << " grid "
                << plan->grid << " run " << plan->run << " shares " << shares;
          }
        }
      }
      EXPECT_GT(forms, 60);
    }
  }
}

TEST(LinearDevice, FusedTileFormsEqualTheFlatOnes) {
  DEVICE_OR_SKIP(device);
  if (!device.sm90()) GTEST_SKIP() << "compute capability 9.0 only";
  const Problem p = make_problem(kCases[0], 320, 640, 41);
  const Buffer weights(p.packed), rows(make_rows(p, 150, 42)), bias(make_rows(p, 1, 43));
  std::vector<float> scales;
  for (int i = 0; i < 320; ++i) scales.push_back(0.5f + static_cast<float>(i) / 320);
  const Buffer channel(scales);
  const Buffer workspace(static_cast<size_t>(linear_workspace_bytes(device)), 0);
  const std::vector<uint16_t> residual = make_rows(p, 150, 44);
  for (const int64_t m : {1, 5, 16, 40, 64, 150}) {
    for (const bool gated : {false, true}) {
      std::vector<uint16_t> y[2];
      for (const bool tile : {false, true}) {
        const Buffer out(residual);
        LinearWeights w{p.c.format, p.c.type, p.n, p.k, weights.get(), static_cast<const float*>(channel.get()),
                        bias.get()};
        LinearArgs a;
        a.x = rows.get(), a.x_stride = p.k, a.y = out.get(), a.y_stride = p.n, a.m = m;
        a.workspace = workspace.get();
        if (gated)
          a.gate = Gate::kSilu;
        else
          a.residual = out.get(), a.residual_stride = p.n;
        const Result<TilePlan> plan = plan_tile_as(w, m, device, true, {});
        ASSERT_TRUE(plan.ok());
        const Status status = tile ? linear_tile(w, a, *plan, device, {})
                                   : linear_flat(w, a, plan_of(p, m, device), device, {});
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        y[tile] = out.read16();
      }
      EXPECT_EQ(y[0], y[1]) << "m " << m << " gated " << gated;
    }
  }
}

TEST(LinearDevice, FusedFormsEqualTheirComposition) {
  DEVICE_OR_SKIP(device);
  const Problem p = make_problem(kCases[0], 160, 640, 21);
  const int64_t m = 5;
  const std::vector<uint16_t> x = make_rows(p, m, 22);
  const Buffer weights(p.packed), rows(x);
  const FlatPlan plan = plan_of(p, m, device);
  const std::vector<uint16_t> plain = run(p, weights, rows, m, plan, device);
  std::vector<uint16_t> residual = make_rows(p, m, 23);
  residual.resize(static_cast<size_t>(m * p.n));
  const Buffer y(residual);
  LinearWeights w{p.c.format, p.c.type, p.n, p.k, weights.get(), nullptr, nullptr};
  LinearArgs a;
  a.x = rows.get(), a.x_stride = p.k, a.y = y.get(), a.y_stride = p.n, a.m = m, a.residual = y.get(),
  a.residual_stride = p.n;
  ASSERT_TRUE(linear_flat(w, a, plan, device, {}).ok());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<uint16_t> added = y.read16();
  for (size_t i = 0; i < added.size(); ++i) {
    EXPECT_EQ(added[i], f32_to_bf16(bf16_to_f32(plain[i]) + bf16_to_f32(residual[i])));
  }
  a.residual = nullptr, a.gate = Gate::kSilu, a.y_stride = p.n / 2;
  ASSERT_TRUE(linear_flat(w, a, plan, device, {}).ok());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<uint16_t> gated = y.read16();
  for (int64_t t = 0; t < m; ++t) {
    for (int64_t i = 0; i < p.n / 2; ++i) {
      const float g = bf16_to_f32(plain[t * p.n + i / 8 * 16 + i % 8]),
                  u = bf16_to_f32(plain[t * p.n + i / 8 * 16 + i % 8 + 8]);
      const float want = g / (1 + std::exp(-g)) * u;
      EXPECT_NEAR(bf16_to_f32(gated[t * (p.n / 2) + i]), want, std::fabs(want) * 0x1p-7 + 1e-30);
    }
  }
}

TEST(LinearDevice, BadArgumentsLaunchNothing) {
  DEVICE_OR_SKIP(device);
  LinearWeights w{{}, Act16::kBf16, 64, 64, nullptr, nullptr, nullptr};
  LinearArgs a;
  a.m = 1, a.x_stride = 64, a.y_stride = 64;
  EXPECT_FALSE(linear_flat(w, a, plan_flat(w, 1, device), device, {}).ok());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace bora::cuda
