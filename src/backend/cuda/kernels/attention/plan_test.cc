#include "backend/cuda/kernels/attention/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "backend/cuda/kernels/attention/kv_layout.h"

namespace bora::cuda {
namespace {

AttentionShape shape_of(int q_heads, int kv_heads, int workers) {
  AttentionShape s;
  s.q_heads = q_heads, s.kv_heads = kv_heads, s.workers = workers;
  return s;
}

// Every tile of every unit is there once, in order; segments are no longer than their share; partials are
// consecutive.
void check_plan(const std::vector<AttentionSequence>& sequences, const AttentionShape& shape,
                const AttentionPlan& plan) {
  std::map<std::tuple<int, int, int>, std::vector<AttentionSegment>> units;
  int64_t left = 0;
  for (const AttentionSegment& s : plan.segments) left += s.tile_end - s.tile_begin;
  for (const AttentionSegment& s : plan.segments) {
    ASSERT_LT(s.tile_begin, s.tile_end);
    const int64_t share = std::max<int64_t>(1, left / (2 * shape.workers));
    EXPECT_LE(s.tile_end - s.tile_begin, share + share / 2);
    left -= s.tile_end - s.tile_begin;
    EXPECT_EQ(s.step_tokens, sequences[s.seq].tokens);
    units[{s.seq, s.token_begin, s.kv_head}].push_back(s);
  }
  EXPECT_EQ(plan.counts[0], static_cast<int32_t>(plan.segments.size()));
  EXPECT_EQ(plan.counts[1], static_cast<int32_t>(plan.merges.size()));
  size_t merges = 0;
  int slots = 0;
  for (const auto& [key, segments] : units) {
    const AttentionSequence& q = sequences[std::get<0>(key)];
    const AttentionSegment& first = segments.front();
    int limit = q.kv_len, start = 0;
    if (shape.causal && !q.tree) limit = std::min(limit, q.pos + (first.token_begin - q.token_begin) + first.tokens);
    if (shape.window > 0) {
      start = std::max(0, q.pos - q.slack + (q.tree ? 0 : first.token_begin - q.token_begin) - shape.window + 1);
    }
    EXPECT_EQ(first.first, 1);
    EXPECT_EQ(first.tile_begin, start / kTileKeys);
    EXPECT_EQ(segments.back().tile_end, std::max(first.tile_begin + 1, (limit + kTileKeys - 1) / kTileKeys));
    for (size_t i = 1; i < segments.size(); ++i) {
      EXPECT_EQ(segments[i].tile_begin, segments[i - 1].tile_end);
      EXPECT_EQ(segments[i].first, 0);
    }
    if (segments.size() == 1) {
      EXPECT_EQ(first.partial, -1);
      continue;
    }
    const auto merge = std::find_if(plan.merges.begin(), plan.merges.end(), [&](const AttentionMerge& m) {
      return m.token_begin == first.token_begin && m.kv_head == first.kv_head;
    });
    ASSERT_NE(merge, plan.merges.end());
    ++merges;
    int slot = merge->slot_begin;
    for (const AttentionSegment& s : segments) {
      EXPECT_EQ(s.partial, slot);
      slot += s.first ? 1 : s.tile_end - s.tile_begin;
    }
    EXPECT_EQ(slot, merge->slot_begin + merge->slots);
    EXPECT_EQ(merge->tokens, first.tokens);
    slots += merge->slots;
  }
  EXPECT_EQ(plan.merges.size(), merges);
  EXPECT_EQ(plan.partial_slots, slots);
}

TEST(AttentionPlan, HoldsEveryTileOnce) {
  std::mt19937 rng(4711);
  for (int round = 0; round < 300; ++round) {
    const int kv_heads = 1 << rng() % 4, group = 1 + rng() % 8;
    AttentionShape shape = shape_of(kv_heads * group, kv_heads, 1 + rng() % 300);
    shape.causal = rng() % 4 != 0;
    shape.window = rng() % 3 == 0 ? 1 + rng() % 1000 : 0;
    shape.small_rows = rng() % 2 ? 16 : 64;
    std::vector<AttentionSequence> sequences(rng() % 20);
    int row = 0;
    for (AttentionSequence& s : sequences) {
      s.token_begin = row;
      s.tokens = rng() % 3 == 0 ? rng() % 200 : 1;
      s.pos = rng() % 3000;
      s.kv_len = s.pos + s.tokens;
      s.tree = rng() % 8 == 0;
      s.slack = rng() % 3 == 0 ? rng() % 9 : 0;
      row += s.tokens;
    }
    SCOPED_TRACE("round " + std::to_string(round) + " of seed 4711");
    const Result<AttentionPlan> plan = plan_attention(sequences, shape);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    check_plan(sequences, shape, *plan);
  }
}

TEST(AttentionPlan, OneLongSequenceIsCutForAllWorkers) {
  const AttentionShape shape = shape_of(32, 8, 264);
  const std::vector<AttentionSequence> one = {{0, 1, 32768, 32767, false}};
  const Result<AttentionPlan> plan = plan_attention(one, shape);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->segments.size(), 1024u);  // 8 heads x 128 tiles
  EXPECT_EQ(plan->merges.size(), 8u);
  EXPECT_EQ(plan->partial_slots, 1024);
}

TEST(AttentionPlan, ShortSequencesStayWhole) {
  const std::vector<AttentionSequence> two = {{0, 1, 256, 255, false}, {1, 1, 1, 0, false}};
  const Result<AttentionPlan> plan = plan_attention(two, shape_of(32, 8, 264));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->segments.size(), 16u);
  EXPECT_TRUE(plan->merges.empty());
}

TEST(AttentionPlan, ManyRowsGoToThePrefillKernelLongestFirst) {
  AttentionShape shape = shape_of(32, 8, 264);
  shape.prefill_rows = 128, shape.prefill_from = 65;
  const std::vector<AttentionSequence> mixed = {
      {0, 1, 100, 99, false}, {1, 512, 1024, 512, false}, {513, 4, 604, 600, true}};
  const Result<AttentionPlan> plan = plan_attention(mixed, shape);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->prefill.size(), 16u);  // 32 tokens a block
  EXPECT_EQ(plan->prefill.front().tiles, 4);
  EXPECT_EQ(plan->prefill.back().tiles, 3);
  EXPECT_TRUE(std::is_sorted(plan->prefill.begin(), plan->prefill.end(),
                             [](const auto& a, const auto& b) { return a.tiles > b.tiles; }));
  for (const AttentionSegment& s : plan->segments) EXPECT_TRUE(s.seq == 0 || (s.seq == 2 && s.tokens == 1));
}

TEST(AttentionPlan, RefusesNonsense) {
  const std::vector<AttentionSequence> one = {{0, 1, 10, 9, false}};
  EXPECT_EQ(plan_attention(one, shape_of(7, 2, 4)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(plan_attention(one, shape_of(8, 2, 0)).status().code(), Code::kInvalidArgument);
  const std::vector<AttentionSequence> beyond = {{0, 2, 10, 9, false}};
  EXPECT_EQ(plan_attention(beyond, shape_of(8, 2, 4)).status().code(), Code::kInvalidArgument);
}

TEST(KvLayout, EveryElementHasItsOwnPlaceAndPiecesStayWhole) {
  for (int head_dim : {64, 80, 96, 128, 256}) {
    for (int block_tokens : {16, 64}) {
      std::vector<bool> seen(head_dim * block_tokens, false);
      for (int t = 0; t < block_tokens; ++t) {
        for (int d = 0; d < head_dim; ++d) {
          const int64_t at = kv_offset(head_dim, t, d);
          ASSERT_EQ(at % 2, 0);
          ASSERT_LT(at, kv_chunk_bytes(head_dim, block_tokens));
          ASSERT_FALSE(seen[at / 2]) << head_dim << " " << t << " " << d;
          seen[at / 2] = true;
          if (d % 8 != 0) {
            ASSERT_EQ(at, kv_offset(head_dim, t, d - 1) + 2);
          }
        }
      }
      // Eight tokens read at one piece fall on eight different bank groups of 16 bytes.
      for (int piece = 0; piece < head_dim / 8; ++piece) {
        for (int t0 = 0; t0 < block_tokens; t0 += 8) {
          uint32_t banks = 0;
          for (int t = t0; t < t0 + 8; ++t) banks |= 1u << (kv_offset(head_dim, t, piece * 8) / 16 % 8);
          ASSERT_EQ(banks, 0xffu) << head_dim << " piece " << piece;
        }
      }
    }
  }
}

}  // namespace
}  // namespace bora::cuda
