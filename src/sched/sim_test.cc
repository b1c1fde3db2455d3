#include "sched/sim.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>

namespace bora::sched {
namespace {

// Forwards everything; mutants override one call.
class PoolProxy : public kv::Pool {
 public:
  explicit PoolProxy(std::unique_ptr<kv::Pool> inner) : inner_(std::move(inner)) {}
  kv::Match match(std::span<const kv::Unit> units, kv::Salt salt) const override {
    return inner_->match(units, salt);
  }
  Result<kv::SeqId> open(std::span<const kv::Unit> u, kv::Salt salt, int32_t n) override {
    return inner_->open(u, salt, n);
  }
  Status reserve(kv::SeqId s, int32_t n, std::vector<kv::BlockCopy>* c) override { return inner_->reserve(s, n, c); }
  int32_t missing_blocks(int32_t n, int32_t cached) const override { return inner_->missing_blocks(n, cached); }
  void confirm(kv::SeqId s, std::span<const kv::Unit> u) override { inner_->confirm(s, u); }
  void truncate(kv::SeqId s, int32_t n) override { inner_->truncate(s, n); }
  Result<kv::SeqId> fork(kv::SeqId s, std::vector<kv::BlockCopy>* c) override { return inner_->fork(s, c); }
  void release(kv::SeqId s, kv::StepId after) override { inner_->release(s, after); }
  void step_complete(kv::StepId s) override { inner_->step_complete(s); }
  int32_t confirmed(kv::SeqId s) const override { return inner_->confirmed(s); }
  int32_t reserved(kv::SeqId s) const override { return inner_->reserved(s); }
  std::span<const kv::BlockId> table(kv::SeqId s, int32_t g) const override { return inner_->table(s, g); }
  kv::BlockId load_slot(kv::SeqId s, int32_t g, int32_t n) const override { return inner_->load_slot(s, g, n); }
  kv::BlockId store_slot(kv::SeqId s, int32_t g, int32_t n) override { return inner_->store_slot(s, g, n); }
  kv::BlockId snapshot(kv::SeqId s, int32_t g, int32_t n) override { return inner_->snapshot(s, g, n); }
  std::vector<kv::Move> evict(int32_t g, int32_t n) override { return inner_->evict(g, n); }
  void moved(kv::MoveId m, const Status& how) override { inner_->moved(m, how); }
  Usage usage(int32_t g) const override { return inner_->usage(g); }
  kv::Counters counters() const override { return inner_->counters(); }
  int32_t block_tokens() const override { return inner_->block_tokens(); }
  Status check() const override { return inner_->check(); }

 protected:
  std::unique_ptr<kv::Pool> inner_;
};

class SchedulerProxy : public Scheduler {
 public:
  explicit SchedulerProxy(std::unique_ptr<Scheduler> inner) : inner_(std::move(inner)) {}
  Status arrive(const Arrival& a, int64_t now) override { return inner_->arrive(a, now); }
  void cancel(RequestId id) override { inner_->cancel(id); }
  void pause(RequestId id, bool paused) override { inner_->pause(id, paused); }
  StepPlan plan(int32_t budget, int64_t now) override { return inner_->plan(budget, now); }
  std::vector<bool> complete(StepId s, std::span<const Outcome> o) override { return inner_->complete(s, o); }
  std::vector<Ended> take_ended() override { return inner_->take_ended(); }
  std::vector<Admission> take_admissions() override { return inner_->take_admissions(); }
  Load load() const override { return inner_->load(); }
  Status check() const override { return inner_->check(); }

 protected:
  std::unique_ptr<Scheduler> inner_;
};

// Pool mutants.
struct ForgetRelease : PoolProxy {
  using PoolProxy::PoolProxy;
  int n = 0;
  void release(kv::SeqId s, kv::StepId after) override {
    if (++n % 50 != 0) PoolProxy::release(s, after);
  }
};
struct ReleaseAtOnce : PoolProxy {
  using PoolProxy::PoolProxy;
  void release(kv::SeqId s, kv::StepId) override { PoolProxy::release(s, -1); }
};
struct CompleteEarly : PoolProxy {
  using PoolProxy::PoolProxy;
  void step_complete(kv::StepId s) override { PoolProxy::step_complete(s + 1); }
};
struct ForgetCopies : PoolProxy {  // a fork that shares a writable block
  using PoolProxy::PoolProxy;
  Status reserve(kv::SeqId s, int32_t n, std::vector<kv::BlockCopy>* c) override {
    std::vector<kv::BlockCopy> lost;
    (void)c;
    return PoolProxy::reserve(s, n, &lost);
  }
};
struct IgnoreSalt : PoolProxy {
  using PoolProxy::PoolProxy;
  kv::Match match(std::span<const kv::Unit> u, kv::Salt) const override { return PoolProxy::match(u, 0); }
  Result<kv::SeqId> open(std::span<const kv::Unit> u, kv::Salt, int32_t n) override {
    return PoolProxy::open(u, 0, n);
  }
};
struct ClaimMore : PoolProxy {  // a match longer than what the groups can restore
  using PoolProxy::PoolProxy;
  kv::Match match(std::span<const kv::Unit> u, kv::Salt salt) const override {
    kv::Match m = PoolProxy::match(u, salt);
    const int32_t longer = m.length + block_tokens();
    if (m.length > 0 && static_cast<size_t>(longer) <= u.size()) m.length = longer;
    return m;
  }
};
struct ReserveOneLess : PoolProxy {  // off by one at a block's border
  using PoolProxy::PoolProxy;
  Status reserve(kv::SeqId s, int32_t n, std::vector<kv::BlockCopy>* c) override {
    return PoolProxy::reserve(s, n > inner_->confirmed(s) ? n - 1 : n, c);
  }
};
struct TableShifted : PoolProxy {
  using PoolProxy::PoolProxy;
  std::span<const kv::BlockId> table(kv::SeqId s, int32_t g) const override {
    const auto t = PoolProxy::table(s, g);
    return t.size() > 3 ? t.subspan(0, t.size() - 1) : t;
  }
};
struct StoreOverLoad : PoolProxy {  // recurrent: writes the slot it reads
  using PoolProxy::PoolProxy;
  kv::BlockId store_slot(kv::SeqId s, int32_t g, int32_t n) override {
    const kv::BlockId load = inner_->load_slot(s, g, inner_->confirmed(s));
    return load >= 0 ? load : PoolProxy::store_slot(s, g, n);
  }
};
struct SnapshotShort : PoolProxy {  // recurrent: the snapshot is filed under a shorter prefix
  SnapshotShort(std::unique_ptr<kv::Pool> inner, int32_t step) : PoolProxy(std::move(inner)), align(step) {}
  const int32_t align;
  kv::BlockId snapshot(kv::SeqId s, int32_t g, int32_t) override {
    return PoolProxy::snapshot(s, g, (inner_->confirmed(s) / align + 1) * align);
  }
};
struct WrongMoveFinished : PoolProxy {  // a transfer whose end is never told
  using PoolProxy::PoolProxy;
  int n = 0;
  void moved(kv::MoveId m, const Status& how) override {
    if (++n % 3 != 0) PoolProxy::moved(m, how);
  }
};

// Scheduler mutants.
struct LoseCancel : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  int n = 0;
  void cancel(RequestId id) override {
    if (++n % 4 != 0) SchedulerProxy::cancel(id);
  }
};
struct EndTwice : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  int n = 0;
  std::vector<Ended> take_ended() override {
    std::vector<Ended> out = SchedulerProxy::take_ended();
    if (!out.empty() && ++n % 100 == 0) out.push_back(out.back());
    return out;
  }
};
struct LoseEnd : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  int n = 0;
  std::vector<Ended> take_ended() override {
    std::vector<Ended> out = SchedulerProxy::take_ended();
    if (!out.empty() && ++n % 100 == 0) out.pop_back();
    return out;
  }
};
struct BeginOffByOne : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  int n = 0;
  StepPlan plan(int32_t budget, int64_t now) override {
    StepPlan p = SchedulerProxy::plan(budget, now);
    for (Work& w : p.work) {
      if (!w.prompt_rows && !w.continues && w.begin > 0 && ++n % 50 == 0) --w.begin;
    }
    return p;
  }
};
struct MisalignedChunk : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  StepPlan plan(int32_t budget, int64_t now) override {
    StepPlan p = SchedulerProxy::plan(budget, now);
    for (Work& w : p.work) {
      if (w.prompt_rows && w.picks == 0 && w.count > 1) --w.count;
    }
    return p;
  }
};
struct IgnorePause : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  void pause(RequestId, bool) override {}
};
struct OneTokenMore : SchedulerProxy {  // overshoots max_tokens
  using SchedulerProxy::SchedulerProxy;
  Status arrive(const Arrival& a, int64_t now) override {
    Arrival more = a;
    ++more.max_new;
    return SchedulerProxy::arrive(more, now);
  }
};
struct BudgetIgnored : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  StepPlan plan(int32_t budget, int64_t now) override { return SchedulerProxy::plan(budget * 2, now); }
};
struct KeepSurplus : SchedulerProxy {  // surplus tokens are taken for real ones
  using SchedulerProxy::SchedulerProxy;
  std::vector<bool> complete(StepId s, std::span<const Outcome> o) override {
    return std::vector<bool>(SchedulerProxy::complete(s, o).size(), true);
  }
};
struct ForgetCopiesOfForks : SchedulerProxy {
  using SchedulerProxy::SchedulerProxy;
  StepPlan plan(int32_t budget, int64_t now) override {
    StepPlan p = SchedulerProxy::plan(budget, now);
    p.copies.clear();
    return p;
  }
};

template <typename T>
SimMutant pool_mutant() {
  SimMutant m;
  m.pool = [](std::unique_ptr<kv::Pool> inner) { return std::make_unique<T>(std::move(inner)); };
  return m;
}
template <typename T>
SimMutant scheduler_mutant() {
  SimMutant m;
  m.scheduler = [](std::unique_ptr<Scheduler> inner) { return std::make_unique<T>(std::move(inner)); };
  return m;
}
SimMutant narrow_window() {
  SimMutant m;
  m.groups = [](std::vector<kv::GroupSpec>* groups) {
    for (kv::GroupSpec& g : *groups) {
      if (g.keep == kv::Keep::kWindow && g.window > 1) --g.window;
    }
  };
  return m;
}

SimMutant snapshot_short() {
  auto align = std::make_shared<int32_t>(0);
  SimMutant m;
  m.groups = [align](std::vector<kv::GroupSpec>* groups) { *align = groups->back().align; };
  m.pool = [align](std::unique_ptr<kv::Pool> inner) {
    return std::make_unique<SnapshotShort>(std::move(inner), *align);
  };
  return m;
}

struct NamedMutant {
  const char* name;
  SimMutant mutant;
};

std::vector<NamedMutant> mutants() {
  return {{"forgets to release", pool_mutant<ForgetRelease>()},
          {"releases at once", pool_mutant<ReleaseAtOnce>()},
          {"completes a step early", pool_mutant<CompleteEarly>()},
          {"a fork shares a writable block", pool_mutant<ForgetCopies>()},
          {"ignores the salt", pool_mutant<IgnoreSalt>()},
          {"claims a longer match", pool_mutant<ClaimMore>()},
          {"reserves one position less", pool_mutant<ReserveOneLess>()},
          {"hides the last block", pool_mutant<TableShifted>()},
          {"stores over what it loads", pool_mutant<StoreOverLoad>()},
          {"files a snapshot too short", snapshot_short()},
          {"never ends a transfer", pool_mutant<WrongMoveFinished>()},
          {"window off by one", narrow_window()},
          {"loses a cancel", scheduler_mutant<LoseCancel>()},
          {"ends twice", scheduler_mutant<EndTwice>()},
          {"loses an end", scheduler_mutant<LoseEnd>()},
          {"begins one early", scheduler_mutant<BeginOffByOne>()},
          {"cuts a chunk at an illegal border", scheduler_mutant<MisalignedChunk>()},
          {"ignores a pause", scheduler_mutant<IgnorePause>()},
          {"gives one token more", scheduler_mutant<OneTokenMore>()},
          {"ignores the budget", scheduler_mutant<BudgetIgnored>()},
          {"keeps surplus tokens", scheduler_mutant<KeepSurplus>()},
          {"drops the copies of a fork", scheduler_mutant<ForgetCopiesOfForks>()}};
}

TEST(Sim, TwentyThousandRequestsOfRandomSeeds) {
  std::random_device random;
  SimReport sum;
  for (int i = 0; i < 4; ++i) {
    SimOptions options;
    options.seed = (uint64_t{random()} << 32) | random();
    options.requests = 5000;
    std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
    auto r = simulate(options);
    ASSERT_TRUE(r.ok()) << r.status().message();
    sum.mixed_steps += r->mixed_steps;
    sum.preemptions += r->preemptions;
    sum.hit_units += r->hit_units;
    sum.surplus_rows += r->surplus_rows;
    sum.evicted += r->evicted;
    sum.copies += r->copies;
    sum.cancelled += r->cancelled;
    sum.stopped += r->stopped;
    sum.by_length += r->by_length;
    sum.moves_failed += r->moves_failed;
  }
  // A simulation that never met the hard cases proves nothing.
  EXPECT_GT(sum.mixed_steps, 100);
  EXPECT_GT(sum.preemptions, 10);
  EXPECT_GT(sum.hit_units, 1000);
  EXPECT_GT(sum.surplus_rows, 100);
  EXPECT_GT(sum.evicted, 1000);
  EXPECT_GT(sum.copies, 100);
  EXPECT_GT(sum.cancelled, 50);
  EXPECT_GT(sum.stopped, 100);
  EXPECT_GT(sum.by_length, 1000);
  EXPECT_GT(sum.moves_failed, 50);
}

TEST(Sim, EqualSeedsGiveEqualRuns) {
  SimOptions options;
  options.seed = 99;
  options.requests = 2000;
  auto a = simulate(options), b = simulate(options);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->steps, b->steps);
  EXPECT_EQ(a->rows, b->rows);
  EXPECT_EQ(a->hit_units, b->hit_units);
}

// Each mutant must be caught within 20,000 requests on three random seeds. Checks of our own that fire end the
// process, which counts as caught: every run is a child.
TEST(SimDeath, EveryMutantIsCaught) {
  std::random_device random;
  GTEST_FLAG_SET(death_test_style, "fast");
  for (const NamedMutant& m : mutants()) {
    for (int i = 0; i < 3; ++i) {
      SimOptions options;
      options.seed = (uint64_t{random()} << 32) | random();
      options.requests = 20'000;
      options.full_check_every = 200;
      options.starvation_steps = 5'000;
      options.mutant = m.mutant;
      EXPECT_DEATH(
          {
            auto r = simulate(options);
            BORA_CHECK(r.ok(), r.status().message().c_str());
          },
          "check failed")
          << m.name << " survived, seed " << options.seed;
    }
  }
}

}  // namespace
}  // namespace bora::sched
