#include "quant/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace bora::quant {
namespace {

std::vector<int64_t> borders(int64_t k, PieceRule rule) {
  Pieces p = k_pieces(k, rule);
  std::vector<int64_t> out;
  for (int32_t i = 0; i <= p.count; ++i) out.push_back(p.begin(i));
  return out;
}

using V = std::vector<int64_t>;

// Borders worked out by hand from the rule.
TEST(Pieces, KnownCuts) {
  EXPECT_EQ(borders(4096, {1, false}), (V{0, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096}));
  EXPECT_EQ(borders(576, {32, false}), (V{0, 96, 192, 256, 320, 384, 448, 512, 576}));  // 18 units: 3 3 2 2 2 2 2 2
  EXPECT_EQ(borders(640, {256, false}), (V{0, 512, 640}));                              // 3 units (last short): 2 1
  EXPECT_EQ(borders(3584, {128, false}), (V{0, 512, 1024, 1536, 2048, 2432, 2816, 3200, 3584}));
  EXPECT_EQ(borders(128, {32, false}), (V{0, 32, 64, 96, 128}));
  EXPECT_EQ(borders(300, {1, true}), (V{0, 256, 300}));  // unit 128: 3 units
  EXPECT_EQ(borders(7, {1, false}), (V{0, 7}));
  EXPECT_EQ(borders(0, {1, false}), (V{0, 0}));
}

TEST(Pieces, UnitIsLcm) {
  EXPECT_EQ(piece_unit({1, false}), 16);
  EXPECT_EQ(piece_unit({32, false}), 32);
  EXPECT_EQ(piece_unit({24, false}), 48);
  EXPECT_EQ(piece_unit({1, true}), 128);
  EXPECT_EQ(piece_unit({256, true}), 256);
  EXPECT_EQ(piece_unit({0, false}), 16);
}

TEST(Pieces, CoverKInOrder) {
  for (int32_t group : {1, 16, 32, 64, 128, 256}) {
    for (bool fp8 : {false, true}) {
      for (int64_t k = 1; k < 5000; k += 13) {
        Pieces p = k_pieces(k, {group, fp8});
        ASSERT_EQ(p.begin(0), 0);
        ASSERT_EQ(p.end(p.count - 1), k);
        int64_t longest = 0, shortest = k;
        for (int32_t i = 0; i < p.count; ++i) {
          ASSERT_LT(p.begin(i), p.end(i)) << k << " " << group;
          ASSERT_EQ(p.begin(i) % std::lcm<int64_t>(group, fp8 ? 128 : 16), 0);
          longest = std::max(longest, p.end(i) - p.begin(i));
          if (i + 1 < p.count) shortest = std::min(shortest, p.end(i) - p.begin(i));
        }
        ASSERT_LE(longest - shortest, p.unit);
      }
    }
  }
}

TEST(Pieces, BordersAreTheOnlySplits) {
  Pieces p = k_pieces(4096, {128, false});
  EXPECT_TRUE(p.is_border(512));
  EXPECT_FALSE(p.is_border(640));
  static_assert(k_pieces(4096, {128, false}).count == 8);
}

}  // namespace
}  // namespace bora::quant
