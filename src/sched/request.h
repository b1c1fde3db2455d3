// What the scheduler keeps of a request. Private to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sched/scheduler.h"

namespace bora::sched {

struct RequestState;

// One answer in the making. `tokens` are the prompt and what was generated and read back; keys exist for the first
// `confirmed` of them (all but the last while decoding).
struct Job {
  RequestState* request = nullptr;
  int32_t choice = 0;
  std::vector<kv::Unit> tokens;
  int32_t generated = 0;    // tokens of the answer that the host has read
  kv::SeqId seq = -1;       // -1: waiting
  int32_t epoch = 0;        // outcomes planned under an older epoch are surplus
  int32_t planned = 0;      // positions planned to be computed, upper bound
  int32_t planned_new = 0;  // answer tokens after all steps in flight, upper bound
  int32_t in_flight = 0;    // steps of this epoch that hold work of it
  int32_t prompt_end = 0;   // prefill reaches to here; beyond it one token at a time
  StepId last_step = -1;    // last step that holds work of it, of any epoch
  bool ended = false;

  bool prefilling() const { return planned < prompt_end; }
};

struct RequestState {
  Arrival arrival;
  int64_t order = 0;  // arrival number
  bool paused = false;
  bool cancelled = false;
  int32_t open_choices = 0;
  bool forked = false;  // the prompt's logits were read and the other choices exist
  std::vector<std::unique_ptr<Job>> jobs;
};

// Who goes first among equals: priority, deadline, arrival, choice.
inline bool goes_before(const Job& a, const Job& b) {
  const Arrival& x = a.request->arrival;
  const Arrival& y = b.request->arrival;
  if (x.priority != y.priority) return x.priority > y.priority;
  const int64_t never = INT64_MAX;
  const int64_t dx = x.deadline_us < 0 ? never : x.deadline_us;
  const int64_t dy = y.deadline_us < 0 ? never : y.deadline_us;
  if (dx != dy) return dx < dy;
  if (a.request->order != b.request->order) return a.request->order < b.request->order;
  return a.choice < b.choice;
}

struct JobBefore {
  bool operator()(const Job* a, const Job* b) const { return goes_before(*a, *b); }
};

}  // namespace bora::sched
