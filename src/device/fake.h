// A device without arithmetic, for tests of what drives devices: its token after a prefix is a pure function of the
// ids that the row's block table really leads to, the seed, the choice and the position.
//
// Every cell of its memory remembers the hash of the prefix that was written there and of the one before it; a row
// reads its whole table (or window) and a pick its whole history slot, so that a wrong block, copy, slot or id is an
// error of the step and no accident. Numbers are read when a step is collected, not when it is launched: who changes
// them too early is found out. States that keep only the last position are checked like cells of one position.
//
// Threads: as device.h says; FakeControl may be changed from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "device/device.h"

namespace bora::device {

struct FakeControl {
  std::atomic<int64_t> delay_us{0};        // of a step, slept while it is collected
  std::atomic<int64_t> row_delay_us{0};    // of a row, the same
  std::atomic<int64_t> fail_at{-1};        // the step of that number (from 0) and all after it fail when collected
  std::atomic<int64_t> refuse_at{-1};      // the same when launched
  std::atomic<int64_t> nan_at{-1};         // that step's picks give -1
  std::atomic<int64_t> steps{0}, rows{0};  // collected so far
  std::atomic<int32_t> most_in_flight{0};
};

struct FakeOptions {
  int32_t vocab = 64;
  uint64_t model = 1;    // another number, other answers
  MemoryPlan plan = {};  // what plan() says, states apart
  uint64_t block_bytes = 1024;
  // Replaces the token function; the prefix hash covers all ids below `position`.
  std::function<int32_t(uint64_t prefix, const ir::PickParams& params, int32_t position, int32_t prompt)> next = {};
};

// `control` outlives the device and its programs.
std::unique_ptr<Device> make_fake_device(const FakeOptions& options, FakeControl* control);

// What the fake's token function answers after `ids`: tests compare with it.
int32_t fake_next(const FakeOptions& options, std::span<const int32_t> ids, const ir::PickParams& params,
                  int32_t prompt);

}  // namespace bora::device
