#include "backend/cuda/kernels/linear/pack.h"

#include <gtest/gtest.h>

#include <random>

#include "backend/cuda/kernels/linear/linear.h"
#include "tensor/half.h"

namespace bora::cuda {
namespace {

const LinearFormat kFormats[] = {
    {},
    {Codes::kFp8},
    {Codes::kFp8, 0, false, true},
    {Codes::kInt8, 32},
    {Codes::kInt8, 128},
    {Codes::kInt4, 32},
    {Codes::kInt4, 64, true},
    {Codes::kInt4, 128},
    {Codes::kInt4, 128, true},
};

struct Plain {
  std::vector<uint16_t> codes16, scales;
  std::vector<uint8_t> codes8, zeros;
  std::vector<float> blocks;
  PlainWeights view;
};

void fill(const LinearFormat& f, int64_t n, int64_t k, Plain* p) {
  std::mt19937 rng(5);
  for (int64_t i = 0; i < n * k; ++i) {
    if (f.codes == Codes::k16)
      p->codes16.push_back(static_cast<uint16_t>(rng()));
    else
      p->codes8.push_back(static_cast<uint8_t>(f.codes == Codes::kInt4 ? rng() % 16 : rng()));
  }
  const int64_t groups = f.group == 0 ? 0 : (k + f.group - 1) / f.group;
  for (int64_t i = 0; i < n * groups; ++i) {
    p->scales.push_back(f32_to_f16(static_cast<float>(rng() % 1000) * 0.001f));
    if (f.zeros) p->zeros.push_back(static_cast<uint8_t>(rng() % 16));
  }
  if (f.block_scale) {
    for (int64_t i = 0; i < ((n + 127) / 128) * ((k + 127) / 128); ++i)
      p->blocks.push_back(static_cast<float>(i) + 0.5f);
  }
  p->view = {n, k, p->codes16, p->codes8, p->scales, p->zeros, p->blocks, {}};
}

TEST(PackLinear, UnpacksToWhatWasPacked) {
  for (const LinearFormat& f : kFormats) {
    for (const auto& [n, k] : {std::pair{16, 16}, std::pair{40, 200}, std::pair{144, 1288}, std::pair{1, 4096}}) {
      Plain p;
      fill(f, n, k, &p);
      const Result<std::vector<uint8_t>> packed = pack_linear(f, p.view);
      ASSERT_TRUE(packed.ok()) << packed.status().message();
      ASSERT_EQ(static_cast<int64_t>(packed->size()), packed_bytes(f, n, k));
      const LinearShape shape = linear_shape(f, n, k);
      const int64_t groups = f.group == 0 ? 0 : (k + f.group - 1) / f.group;
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < k; ++c) {
          const PackedWeight w = unpack_one(f, shape, *packed, r, c);
          const size_t at = static_cast<size_t>(r * k + c);
          ASSERT_EQ(w.code, f.codes == Codes::k16 ? p.codes16[at] : p.codes8[at]) << r << ", " << c;
          if (f.group > 0) {
            const size_t group = static_cast<size_t>(r * groups + c / f.group);
            ASSERT_EQ(w.scale, f16_to_f32(p.scales[group]));
            if (f.codes == Codes::kInt4) {
              ASSERT_EQ(w.zero, f.zeros ? p.zeros[group] : 8);
            }
          }
          if (f.block_scale) {
            ASSERT_EQ(w.scale, p.blocks[static_cast<size_t>(r / 128 * ((k + 127) / 128) + c / 128)]);
          }
        }
      }
    }
  }
}

TEST(PackLinear, OneLoadOfALaneIsAnOperandOfTheTensorCore) {
  // Row g, columns 2t.. and 2t + 8.., rows g and g + 8: the words of lane 4 g + t, here g = 3, t = 2, of the second
  // k16 step.
  Plain p;
  fill({}, 16, 32, &p);
  const Result<std::vector<uint8_t>> packed = pack_linear({}, p.view);
  ASSERT_TRUE(packed.ok());
  const LinearShape shape = linear_shape({}, 16, 32);
  ASSERT_EQ(shape.pieces, 2);
  const uint8_t* chunk = packed->data() + int64_t{shape.piece_block[1]} * LinearFormat{}.block_bytes();
  const int rows[] = {3, 11, 3, 11}, columns[] = {20, 20, 28, 28};
  for (int r = 0; r < 4; ++r) {
    for (int h = 0; h < 2; ++h) {
      const uint8_t* at = chunk + (4 * 3 + 2) * 16 + r * 4 + h * 2;
      EXPECT_EQ(at[0] | at[1] << 8, p.codes16[static_cast<size_t>(rows[r] * 32 + columns[r] + h)]);
    }
  }
}

TEST(PackLinear, GateAndUpRowsShareATile) {
  const std::vector<int32_t> order = swiglu_order(48);
  for (int i = 0; i < 48; ++i) {
    const int pair = i / 16 * 8 + i % 8;
    EXPECT_EQ(order[static_cast<size_t>(i)], i % 16 < 8 ? pair : 24 + pair);
  }
  Plain p;
  fill({}, 48, 64, &p);
  p.view.order = order;
  const Result<std::vector<uint8_t>> packed = pack_linear({}, p.view);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(unpack_one({}, linear_shape({}, 48, 64), *packed, 9, 7).code, p.codes16[25 * 64 + 7]);
}

TEST(PackLinear, RefusesByName) {
  Plain p;
  fill({Codes::kInt4, 32}, 16, 64, &p);
  EXPECT_FALSE(pack_linear({Codes::kInt4, 48}, p.view).ok());
  EXPECT_FALSE(pack_linear({Codes::kInt4, 64}, p.view).ok());
  EXPECT_FALSE(pack_linear({Codes::kInt4, 32, true}, p.view).ok());
  p.codes8[3] = 16;
  const Result<std::vector<uint8_t>> bad = pack_linear({Codes::kInt4, 32}, p.view);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.status().message().find("4-bit code of 16"), std::string::npos);
}

DeviceInfo h200() {
  DeviceInfo d;
  d.major = 9, d.sms = 132, d.shared_bytes_block = 232448;
  d.clusters[0] = 132, d.clusters[1] = 66, d.clusters[2] = 31, d.clusters[3] = 14;
  return d;
}

TEST(FlatPlan, FitsTheDeviceAndCoversTheRows) {
  for (const LinearFormat& f : kFormats) {
    for (const auto& [n, k] :
         {std::pair{6144, 4096}, std::pair{4096, 14336}, std::pair{128256, 4096}, std::pair{16, 16}}) {
      for (const int64_t m : {1, 8, 9, 16, 32, 64, 100}) {
        LinearWeights w;
        w.format = f, w.n = n, w.k = k;
        for (DeviceInfo d : {h200(), h200()}) {
          if (m % 2 == 0) d.major = 8, d.shared_bytes_block = 166912, d.sms = 108;
          const FlatPlan plan = plan_flat(w, m, d);
          if (d.major == 8 && plan.grid == 0) continue;  // 64 rows of x may not fit an older device
          ASSERT_GT(plan.grid, 0) << n << " x " << k << " m " << m << " bits " << f.bits();
          EXPECT_LE(plan.shared_bytes, d.shared_bytes_block);
          EXPECT_EQ(plan.grid % plan.cluster, 0);
          EXPECT_GE(plan.x_blocks, 1);
        }
      }
    }
  }
}

TEST(CheckLinear, SaysWhatIsWrong) {
  const DeviceInfo device = h200();
  alignas(16) static uint8_t place[64];
  LinearWeights w;
  w.n = 64, w.k = 64, w.packed = place;
  LinearArgs a;
  a.m = 1, a.x = place, a.y = place, a.x_stride = 64, a.y_stride = 64;
  EXPECT_TRUE(check_linear(w, a, device).ok());
  LinearArgs bad = a;
  bad.x = place + 2;
  EXPECT_NE(check_linear(w, bad, device).message().find("x is null or misaligned"), std::string::npos);
  bad = a, bad.y_stride = 63;
  EXPECT_NE(check_linear(w, bad, device).message().find("stride of y"), std::string::npos);
  bad = a, bad.m = -1;
  EXPECT_FALSE(check_linear(w, bad, device).ok());
  DeviceInfo old = device;
  old.major = 7;
  EXPECT_NE(check_linear(w, a, old).message().find("7.0"), std::string::npos);
}

}  // namespace
}  // namespace bora::cuda
