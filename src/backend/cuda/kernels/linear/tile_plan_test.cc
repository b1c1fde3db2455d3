#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "backend/cuda/kernels/linear/linear.h"
#include "backend/cuda/kernels/linear/tile_params.h"

namespace bora::cuda {
namespace {

DeviceInfo h200() {
  DeviceInfo d;
  d.major = 9, d.sms = 132, d.shared_bytes_block = 232448;
  return d;
}

TEST(TilePlan, RunsCoverEveryUnitOnceWithinTheWorkspace) {
  const DeviceInfo device = h200();
  for (const LinearFormat& f : {LinearFormat{}, LinearFormat{Codes::kFp8}, LinearFormat{Codes::kInt4, 128, true}}) {
    for (const auto& [n, k] : {std::pair{6144, 4096}, std::pair{4096, 14336}, std::pair{28672, 4096},
                               std::pair{128256, 4096}, std::pair{33, 520}, std::pair{16, 16}}) {
      for (const int64_t m : {1, 8, 9, 16, 17, 64, 65, 200, 1024, 8192}) {
        for (const int32_t grid : {0, 1, 7, 264}) {
          LinearWeights w;
          w.format = f, w.n = n, w.k = k;
          TilePlan wish;
          wish.grid = grid;
          const Result<TilePlan> plan = plan_tile_as(w, m, device, true, wish);
          ASSERT_TRUE(plan.ok()) << plan.status().message();
          const int64_t tiles = (n + 127) / 128 * ((m + plan->tokens - 1) / plan->tokens);
          ASSERT_GT(plan->grid, 0);
          EXPECT_LE(plan->grid, 264);
          EXPECT_LE(plan->grid, tiles * linear_shape(f, n, k).pieces);
          EXPECT_LE(tile_shared_bytes(f, plan->tokens) * tile_blocks_per_sm(f, plan->tokens), 228 * 1024 - 2048);
          if (!plan->shares) continue;
          EXPECT_EQ(int64_t{plan->grid} * plan->run + plan->longer_runs, tiles * linear_shape(f, n, k).pieces);
          EXPECT_GE(plan->published, std::min(plan->run + (plan->longer_runs > 0), linear_shape(f, n, k).pieces - 1));
          EXPECT_LE(4096 + int64_t{plan->grid} * plan->published * kTileRows * plan->tokens * 4,
                    linear_workspace_bytes(device));
        }
      }
    }
  }
}

TEST(TilePlan, IsRefusedByNameWithoutTheDevice) {
  DeviceInfo old = h200();
  old.major = 8;
  LinearWeights w;
  w.n = 64, w.k = 64;
  EXPECT_NE(plan_tile_as(w, 16, old, true, {}).status().message().find("9.0"), std::string::npos);
  EXPECT_EQ(plan_linear(w, 16, old, true).tile.grid, 0);
  EXPECT_GT(plan_linear(w, 16, old, true).flat.grid, 0);
  // Without a workspace a few rows are better served by the flat form.
  EXPECT_EQ(plan_linear(w, 16, h200(), false).tile.grid, 0);
}

}  // namespace
}  // namespace bora::cuda
