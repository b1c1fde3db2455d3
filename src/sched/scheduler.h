// The scheduler: a pure state machine that decides what each step computes. It works on integers, sees no clock but
// the one it is handed, and never blocks, so that a million requests can be simulated in a test.
//
// A sequence has three lengths: confirmed (the host has read the tokens) <= on device <= planned (upper bound, drafts
// included). Steps are planned ahead: up to `steps_in_flight` before the first outcome returns. Rows launched after a
// stop are surplus: computed, dropped, never cached. max_tokens and the context limit are known ahead and never
// overshoot.
//
// Decode rows first, then prefill by priority, deadline and arrival with fair shares of the step's token budget;
// chunks end at multiples of `align` or at the prompt's end. Admission is by blocks for what is certain; when the
// pool runs dry the youngest lowest-priority request is put back and later recomputed, with the same output.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kv/pool.h"

namespace bora::sched {

using RequestId = int64_t;
using StepId = int64_t;

struct Limits {
  int32_t max_seqs = 16;       // S
  int32_t max_tokens = 512;    // T: rows of a step
  int32_t max_rows = 64;       // R
  int32_t max_context = 4096;  // positions of a sequence
  int32_t max_waiting = 1024;  // queue; beyond it: kResourceExhausted
  int32_t align = 16;
  int32_t steps_in_flight = 1;  // 1 to 3
  int32_t max_drafts = 0;       // 0 to 8
};

struct Arrival {
  RequestId id = 0;
  std::vector<kv::Unit> prompt;  // not empty
  int32_t max_new = 1;
  kv::Salt salt = 0;
  int32_t priority = 0;      // higher first
  int64_t deadline_us = -1;  // on the injected clock; -1 none. A request past it ends with kDeadline
  int32_t choices = 1;       // n: forks after the prompt; at most max_rows
  bool prompt_logprobs = false;
};

enum class Finish : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

// What arrives between steps.
struct Cancel {
  RequestId id = 0;
};

// One sequence's share of a step.
struct Work {
  RequestId request = 0;
  int32_t choice = 0;
  kv::SeqId seq = -1;
  int32_t begin = 0;  // first position computed
  int32_t count = 0;  // rows; decode: 1 + drafts
  int32_t drafts = 0;
  bool prompt_rows = false;  // prefill chunk
  bool want_logits = false;  // of the last row; decode: of every row
  bool all_rows = false;     // prompt_logprobs: of every prompt row
  bool continues = false;    // its first token is the previous step's pick, still on the device
  int32_t picks =
      0;  // logits rows picked from: 0 (no logits), 1 + drafts, or `choices` copies of a prompt's last row
  int32_t snapshot = 0;  // length at which recurrent groups should keep a snapshot; 0 none
};

// A choice that gave its blocks back and waits again; its picks in flight are surplus.
struct PutBack {
  RequestId request = 0;
  int32_t choice = 0;
};

struct StepPlan {
  StepId id = 0;
  std::vector<Work> work;  // decode first; empty = nothing to do
  std::vector<kv::BlockCopy> copies;
  std::vector<kv::Move> before;
  std::vector<PutBack> preempted;
};

// What the device did, one for each choice that got tokens: in the order of the plan's work with picks. Prompt rows
// with picks > 1 give one outcome for each of the choices 0 to picks - 1.
struct Outcome {
  RequestId request = 0;
  int32_t choice = 0;
  std::span<const int32_t> tokens;  // accepted tokens, 1 + accepted drafts
  bool stopped = false;             // the engine saw a stop condition at the last token
};

struct Ended {
  RequestId request = 0;
  int32_t choice = 0;
  Finish finish = Finish::kStop;
};

struct Admission {
  RequestId request = 0;
  int32_t cached_tokens = 0;
  std::string why_not_longer;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // kResourceExhausted (queue full), kInvalidArgument (prompt longer than the context; both numbers in the message).
  virtual Status arrive(const Arrival& arrival, int64_t now_us) = 0;
  virtual void cancel(RequestId id) = 0;
  // A reader that has no room: its sequences are not planned until resumed.
  virtual void pause(RequestId id, bool paused) = 0;
  // Plans the next step within `token_budget` rows. REQUIRES: fewer than steps_in_flight steps are open.
  virtual StepPlan plan(int32_t token_budget, int64_t now_us) = 0;
  // Outcomes of the oldest open step. By outcome: true if its tokens count, false if they are surplus (the choice
  // ended or was put back after the step was planned): those must be dropped.
  virtual std::vector<bool> complete(StepId step, std::span<const Outcome> outcomes) = 0;
  // Requests (choices) that ended since the last call, each exactly once.
  virtual std::vector<Ended> take_ended() = 0;
  virtual std::vector<Admission> take_admissions() = 0;

  struct Load {
    int32_t waiting = 0, running = 0, paused = 0;
    int64_t preemptions = 0, mixed_steps = 0, surplus_rows = 0;
  };
  virtual Load load() const = 0;
  virtual Status check() const = 0;
};

// `pool` outlives this and is changed by nobody else. REQUIRES: the pool can hold one sequence of max_context
// positions, and limits are in their ranges.
std::unique_ptr<Scheduler> make_scheduler(const Limits& limits, kv::Pool* pool);

}  // namespace bora::sched
