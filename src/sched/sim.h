// Simulation: drives a scheduler and a pool from a seed against a memory that remembers what was written where.
//
// The simulated device keeps, for every position of every block, a hash of the whole prefix that ends there. A row
// that reads through its table therefore notices any block that was lost, shared while written, reused too early or
// matched wrongly. The next token is a function of (prefix, seed, choice), so every request's output is known
// beforehand: it must equal its solo run whatever happens to it on the way.
//
// Checked after every step: reads, writes against steps in flight, lengths, picks, pauses; in full every
// `full_check_every` steps: pool and scheduler invariants. At the end: every choice ended exactly once, nothing is
// held.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kv/pool.h"
#include "sched/scheduler.h"

namespace bora::sched {

// Where a test puts a faulty pool or scheduler between. Null: the real one.
struct SimMutant {
  std::function<std::unique_ptr<kv::Pool>(std::unique_ptr<kv::Pool>)> pool;
  std::function<std::unique_ptr<Scheduler>(std::unique_ptr<Scheduler>)> scheduler;
  std::function<void(std::vector<kv::GroupSpec>*)> groups;  // what the pool is told, not what the device does
};

struct SimOptions {
  uint64_t seed = 1;
  int64_t requests = 1000;
  int64_t full_check_every = 1000;
  int64_t starvation_steps = 60'000;  // a request that nobody paused ends within this many steps
  SimMutant mutant;
};

struct SimReport {
  int64_t requests = 0, choices = 0, steps = 0, rows = 0;
  int64_t mixed_steps = 0, preemptions = 0, surplus_rows = 0, hit_units = 0, evicted = 0, copies = 0;
  int64_t cancelled = 0, expired = 0, stopped = 0, by_length = 0, moves_failed = 0, moves_done = 0, rejected = 0;
  int64_t most_steps = 0;  // of a request's life
};

// kInternal with "seed S, step N: what broke" at the first violation. The configuration (groups, sizes, steps in
// flight, drafts, rates) follows from the seed; a run of many requests changes it every few thousand.
Result<SimReport> simulate(const SimOptions& options);

}  // namespace bora::sched
