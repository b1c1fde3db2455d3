#include "kv/pool.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/rng.h"

namespace bora::kv {
namespace {

std::vector<Unit> units(int32_t n, Unit salt = 0) {
  std::vector<Unit> out;
  for (int32_t i = 0; i < n; ++i) out.push_back(static_cast<Unit>(i) * 7 + 1 + salt);
  return out;
}

std::unique_ptr<Pool> pool_of(std::vector<GroupSpec> groups, int32_t sequences = 8) {
  auto r = make_pool(groups, sequences);
  BORA_CHECK(r.ok(), r.status().message().c_str());
  return *std::move(r);
}

SeqId run(Pool& pool, std::span<const Unit> prompt, Salt salt = 0) {
  const Match m = pool.match(prompt, salt);
  auto seq = pool.open(prompt, salt, m.length);
  EXPECT_TRUE(seq.ok());
  std::vector<BlockCopy> copies;
  EXPECT_TRUE(pool.reserve(*seq, static_cast<int32_t>(prompt.size()), &copies).ok());
  pool.confirm(*seq, prompt.subspan(static_cast<size_t>(m.length)));
  EXPECT_TRUE(pool.check().ok()) << pool.check().message();
  return *seq;
}

TEST(Pool, RefusesSpecsThatMeanNothing) {
  EXPECT_FALSE(make_pool({}, 1).ok());
  const GroupSpec a{.keep = Keep::kAll, .block = 16, .blocks = 4};
  const GroupSpec b{.keep = Keep::kWindow, .window = 8, .block = 32, .blocks = 4};
  const GroupSpec c{.keep = Keep::kLast, .block = 2, .align = 24, .blocks = 4};
  const GroupSpec d{.keep = Keep::kWindow, .window = 0, .block = 16, .blocks = 4};
  for (std::vector<GroupSpec> bad : std::vector<std::vector<GroupSpec>>{{a, b}, {a, c}, {d}}) {
    EXPECT_FALSE(make_pool(bad, 4).ok());
  }
}

TEST(Pool, MatchFindsCompleteConfirmedBlocksOfTheSameSalt) {
  auto pool = pool_of({{.keep = Keep::kAll, .block = 16, .blocks = 16}});
  const std::vector<Unit> prompt = units(40);
  const SeqId seq = run(*pool, prompt);
  EXPECT_EQ(pool->match(prompt, 0).length, 32);  // live blocks are shared too
  EXPECT_EQ(pool->match(prompt, 1).length, 0);
  pool->release(seq, -1);
  EXPECT_EQ(pool->match(prompt, 0).length, 32);
  EXPECT_EQ(pool->usage(0).cached, 2);
  EXPECT_EQ(pool->usage(0).free, 14);
  std::vector<Unit> other = prompt;
  other[21] = 999;
  const Match m = pool->match(other, 0);
  EXPECT_EQ(m.length, 16);
  EXPECT_EQ(m.differs_at, 21);
  EXPECT_EQ(m.why_not_longer, "differs at token 21");
}

TEST(Pool, ReservedUnitsAreNotFindable) {
  auto pool = pool_of({{.keep = Keep::kAll, .block = 16, .blocks = 16}});
  const std::vector<Unit> prompt = units(48);
  auto seq = pool->open(prompt, 0, 0);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(pool->reserve(*seq, 48, &copies).ok());
  EXPECT_EQ(pool->match(prompt, 0).length, 0);
  pool->confirm(*seq, std::span(prompt).first(20));
  EXPECT_EQ(pool->match(prompt, 0).length, 16);
}

TEST(Pool, AllGroupsOrNone) {
  auto pool =
      pool_of({{.keep = Keep::kAll, .block = 16, .blocks = 10}, {.keep = Keep::kAll, .block = 16, .blocks = 2}});
  auto seq = pool->open({}, 0, 0);
  std::vector<BlockCopy> copies;
  EXPECT_EQ(pool->reserve(*seq, 48, &copies).code(), Code::kResourceExhausted);
  EXPECT_EQ(pool->usage(0).free, 10);
  EXPECT_EQ(pool->usage(1).free, 2);
  EXPECT_TRUE(pool->reserve(*seq, 32, &copies).ok());
  EXPECT_TRUE(pool->check().ok());
}

TEST(Pool, EvictionTakesLeavesFirstAndNeverLiveBlocks) {
  auto pool = pool_of({{.keep = Keep::kAll, .block = 16, .blocks = 6}});
  const std::vector<Unit> a = units(48);
  pool->release(run(*pool, a), -1);                // 3 cached
  const SeqId live = run(*pool, units(32, 5000));  // 2 owned, 1 free
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(pool->reserve(live, 64, &copies).ok());  // takes the free one and evicts one
  EXPECT_EQ(pool->match(a, 0).length, 32);             // the deepest block went, not the first
  EXPECT_TRUE(pool->check().ok());
  EXPECT_FALSE(pool->reserve(live, 128, &copies).ok());
  EXPECT_EQ(pool->reserved(live), 64);
}

TEST(Pool, ForkCopiesOnWriteOnly) {
  auto pool = pool_of({{.keep = Keep::kAll, .block = 16, .blocks = 16}});
  const SeqId a = run(*pool, units(24));
  std::vector<BlockCopy> copies;
  const SeqId b = *pool->fork(a, &copies);
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(pool->table(a, 0)[1], pool->table(b, 0)[1]);
  ASSERT_TRUE(pool->reserve(b, 25, &copies).ok());
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, pool->table(a, 0)[1]);
  EXPECT_EQ(copies[0].to, pool->table(b, 0)[1]);
  EXPECT_EQ(pool->table(a, 0)[0], pool->table(b, 0)[0]);
  copies.clear();
  ASSERT_TRUE(pool->reserve(a, 25, &copies).ok());  // nobody else holds its tail any more
  EXPECT_TRUE(copies.empty());
  EXPECT_TRUE(pool->check().ok());
}

TEST(Pool, ReleasedBlocksWaitForTheStepsInFlight) {
  auto pool = pool_of({{.keep = Keep::kAll, .block = 16, .blocks = 2}});
  const SeqId a = run(*pool, units(20));
  pool->release(a, 7);
  EXPECT_EQ(pool->usage(0).waiting, 2);
  auto b = pool->open({}, 0, 0);
  std::vector<BlockCopy> copies;
  EXPECT_FALSE(pool->reserve(*b, 16, &copies).ok());
  pool->step_complete(6);
  EXPECT_FALSE(pool->reserve(*b, 16, &copies).ok());
  pool->step_complete(7);
  EXPECT_TRUE(pool->reserve(*b, 16, &copies).ok());
  EXPECT_TRUE(pool->check().ok());
}

TEST(Pool, WindowsReleaseWhatNoRowSees) {
  auto pool = pool_of({{.keep = Keep::kAll, .block = 16, .blocks = 32},
                       {.keep = Keep::kWindow, .window = 20, .block = 16, .blocks = 32}});
  const std::vector<Unit> prompt = units(96);
  const SeqId a = run(*pool, prompt);
  // A row at position 96 sees 77 to 96: blocks 0 to 3 are behind.
  EXPECT_EQ(pool->table(a, 1)[3], -1);
  EXPECT_GE(pool->table(a, 1)[4], 0);
  EXPECT_EQ(pool->usage(1).owned, 2);
  EXPECT_EQ(pool->match(prompt, 0).length, 96);
  // One window block less: only shorter prefixes can be restored.
  pool->release(a, -1);
  std::vector<Move> moves = pool->evict(1, 1);
  ASSERT_EQ(moves.size(), 1u);
  const int32_t length = pool->match(prompt, 0).length;
  EXPECT_LE(length, 96);
  pool->moved(moves[0].id, unavailable("link down"));
  EXPECT_EQ(pool->match(prompt, 0).length, 96);
  moves = pool->evict(1, 6);
  for (const Move& m : moves) pool->moved(m.id, ok_status());
  EXPECT_EQ(pool->match(prompt, 0).length, 0);
  EXPECT_TRUE(pool->check().ok());
}

TEST(Pool, RecurrentStateIsRestoredFromSnapshotsOnly) {
  auto pool = pool_of(
      {{.keep = Keep::kAll, .block = 16, .blocks = 32}, {.keep = Keep::kLast, .block = 2, .align = 16, .blocks = 8}});
  const std::vector<Unit> prompt = units(64);
  auto a = pool->open(prompt, 0, 0);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(pool->reserve(*a, 64, &copies).ok());
  EXPECT_EQ(pool->load_slot(*a, 1, 0), -1);
  const BlockId snap = pool->snapshot(*a, 1, 32);
  ASSERT_GE(snap, 0);
  EXPECT_EQ(pool->match(prompt, 0).length, 0);
  pool->confirm(*a, prompt);
  EXPECT_EQ(pool->match(prompt, 0).length, 32);  // keys reach 64, the state only 32
  auto b = pool->open(prompt, 0, 32);
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(pool->load_slot(*b, 1, 32), snap);
  EXPECT_NE(pool->store_slot(*b, 1, 33), snap);
  pool->release(*a, -1);
  pool->release(*b, -1);
  EXPECT_EQ(pool->usage(1).cached, 1);
  EXPECT_TRUE(pool->check().ok());
}

TEST(Pool, StoreSlotsNeverOverwriteTheConfirmedState) {
  auto pool = pool_of({{.keep = Keep::kLast, .block = 3, .align = 16, .blocks = 8}});
  auto a = pool->open({}, 0, 0);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(pool->reserve(*a, 64, &copies).ok());
  const std::vector<Unit> u = units(64);
  for (int32_t at = 0; at < 40; ++at) {
    const BlockId load = pool->load_slot(*a, 0, at);
    const BlockId one = pool->store_slot(*a, 0, at + 1);
    const BlockId two = pool->store_slot(*a, 0, at + 2);  // a draft that fails
    ASSERT_NE(load, one);
    ASSERT_NE(load, two);
    ASSERT_NE(one, two);
    pool->confirm(*a, std::span(u).subspan(static_cast<size_t>(at), 1));
    ASSERT_EQ(pool->load_slot(*a, 0, at + 1), one);
  }
}

// Random calls; invariants recomputed after each; matches checked against a plain list of what was ever confirmed.
TEST(Pool, RandomCallsKeepEveryInvariant) {
  Counters sum;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const int32_t roomy = seed % 2 == 0 ? 60 : 0;
    auto pool = pool_of({{.keep = Keep::kAll, .block = 4, .blocks = 24 + roomy},
                         {.keep = Keep::kWindow, .window = 6, .block = 4, .blocks = 20 + roomy},
                         {.keep = Keep::kLast, .block = 3, .align = 8, .blocks = 22 + roomy}},
                        5);
    struct Live {
      SeqId seq;
      std::vector<Unit> text;
    };
    std::vector<Live> live;
    std::vector<std::vector<Unit>> seen, confirmed_once;
    StepId step = 0;
    for (int i = 0; i < 3000; ++i) {
      const uint64_t what = rng.below(10);
      if (what < 3 && live.size() < 5) {
        std::vector<Unit> text = seen.empty() || rng.chance(0.3) ? std::vector<Unit>{} : seen[rng.below(seen.size())];
        text.resize(rng.below(text.size() + 1));
        const Match m = pool->match(text, 0);
        bool known = m.length == 0;
        for (const auto& s : confirmed_once) {
          known |= s.size() >= static_cast<size_t>(m.length) &&
                   std::equal(text.begin(), text.begin() + m.length, s.begin());
        }
        ASSERT_TRUE(known) << "matched what nobody confirmed";
        auto seq = pool->open(text, 0, m.length);
        if (seq.ok()) {
          text.resize(static_cast<size_t>(m.length));
          live.push_back({*seq, text});
        }
      } else if (what < 7 && !live.empty()) {
        Live& l = live[rng.below(live.size())];
        std::vector<BlockCopy> copies;
        const int32_t ahead = static_cast<int32_t>(rng.below(9));
        if (pool->reserve(l.seq, pool->confirmed(l.seq) + ahead, &copies).ok()) {
          std::vector<Unit> more;
          const int32_t room = pool->reserved(l.seq) - pool->confirmed(l.seq);
          for (int64_t k = rng.between(0, room); k > 0; --k) more.push_back(rng.below(3));
          const int32_t next = (pool->confirmed(l.seq) / 8 + 1) * 8;
          if (next <= pool->reserved(l.seq)) pool->snapshot(l.seq, 2, next);
          pool->confirm(l.seq, more);
          l.text.insert(l.text.end(), more.begin(), more.end());
          if (seen.size() < 12) {
            seen.push_back(l.text);
          } else {
            seen[rng.below(12)] = l.text;
          }
          confirmed_once.push_back(l.text);
          if (rng.chance(0.5)) pool->truncate(l.seq, pool->confirmed(l.seq));
        }
      } else if (what == 7 && !live.empty() && live.size() < 5) {
        std::vector<BlockCopy> copies;
        const Live from = live[rng.below(live.size())];
        auto seq = pool->fork(from.seq, &copies);
        if (seq.ok()) live.push_back({*seq, from.text});
      } else if (what == 8 && !live.empty()) {
        const size_t at = rng.below(live.size());
        pool->release(live[at].seq, rng.chance(0.5) ? step + 1 : -1);
        live[at] = live.back();
        live.pop_back();
      } else {
        pool->step_complete(step++);
        const int32_t g = static_cast<int32_t>(rng.below(3));
        for (const Move& m : pool->evict(g, static_cast<int32_t>(rng.below(3)))) {
          pool->moved(m.id, rng.chance(0.5) ? ok_status() : unavailable("x"));
        }
      }
      const Status s = pool->check();
      ASSERT_TRUE(s.ok()) << "call " << i << ": " << s.message();
    }
    sum.evicted_blocks += pool->counters().evicted_blocks;
    sum.hits_units += pool->counters().hits_units;
    sum.copied_blocks += pool->counters().copied_blocks;
  }
  EXPECT_GT(sum.evicted_blocks, 300);
  EXPECT_GT(sum.hits_units, 1000);
  EXPECT_GT(sum.copied_blocks, 100);
}

}  // namespace
}  // namespace bora::kv
