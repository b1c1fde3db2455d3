// Steps: a plan's integers as a device takes them, in buffers reserved once (as many as steps may be in flight).
// Private to the module; the engine's thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "engine/live.h"
#include "kv/pool.h"

namespace bora::engine {

// Whose token a pick of a step is.
struct PickOwner {
  Live* live = nullptr;
  int32_t choice = 0;   // gets the token
  int32_t lead = 0;     // whose row it is: differs for the first tokens of several choices
  int32_t epoch = 0;    // of the lead
  int32_t target = -1;  // position of a prompt token that is scored
};

struct Step {
  sched::StepPlan plan;
  device::StepPatch patch;        // views what follows
  std::vector<PickOwner> owners;  // by pick
  int32_t prefill_rows = 0;
  bool launched = false;  // false: nothing for the device to do
  int64_t launched_us = 0;

  std::vector<int32_t> ids, pos, seq, seq_begin, kv_len, rows, origin, ids_from;
  std::vector<std::vector<int32_t>> table, slot, load, store;  // by group
  std::vector<device::BlockCopy> copies;
  std::vector<device::PickRow> picks;
};

using LiveMap = std::unordered_map<RequestId, std::unique_ptr<Live>>;

// Token histories on the device: a slot belongs to the choice that used it last, until another needs it.
class Slots {
 public:
  explicit Slots(int32_t count) : slots_(static_cast<size_t>(count)) {}
  // Makes the choice own a slot for step `step`; those used after `completed` are not taken from anybody.
  void take(Live* live, int32_t choice, sched::StepId step, sched::StepId completed);
  void forget(const Live* live);

 private:
  struct Slot {
    Live* live = nullptr;
    int32_t choice = 0;
    sched::StepId used = -1;
  };
  std::vector<Slot> slots_;
};

class StepBuilder {
 public:
  StepBuilder(const device::Bounds& bounds, std::vector<kv::GroupSpec> groups, kv::Pool* pool);
  void reserve(Step* step) const;
  // Fills everything of *step from its plan. `completed`: the last step that was collected.
  void build(const LiveMap& live, sched::StepId completed, Step* step);
  Slots& slots() { return slots_; }

 private:
  void add_rows(const sched::Work& work, Live& live, int32_t seq, Step* step);
  void add_state(const sched::Work& work, int32_t seq, Step* step);
  void add_picks(const sched::Work& work, Live& live, sched::StepId completed, Step* step);
  void add_scores(const sched::Work& work, Live& live, Step* step);

  device::Bounds bounds_;
  std::vector<kv::GroupSpec> groups_;
  kv::Pool& pool_;
  Slots slots_;
  std::vector<device::BlockCopy> carried_;  // copies of a step that had nothing else
};

}  // namespace bora::engine
