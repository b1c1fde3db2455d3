// A request inside an engine. Private to the module; owned by the engine's thread once it was submitted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/params.h"
#include "engine/stop_text.h"
#include "sched/scheduler.h"

namespace bora::engine {

struct LiveChoice {
  std::vector<int32_t> tokens;  // prompt and answer as read back; never reallocates: steps in flight view it
  ir::PickParams params;
  std::unique_ptr<text::StreamDecoder> decoder;  // null: ids only
  StopText stops;
  int32_t slot = -1;       // of token history on the device
  int32_t written = 0;     // positions of the slot that hold its tokens once the launched steps have run
  int32_t epoch = 0;       // picks launched under an older one are surplus
  int32_t last_pick = -1;  // its pick's index in the step launched last that picked for it
  bool ended = false;      // by the scheduler
  bool closed = false;     // its text is complete: nothing more is decoded
  int32_t made = 0;        // tokens of the answer
  std::string stop_reason;
  Status error;  // not OK: ends with kError, whatever the scheduler says
};

struct Live {
  RequestId id = 0;
  Request request;
  std::unique_ptr<PickStore> picks;
  ir::PickParams scoring;
  std::vector<LiveChoice> choices;
  kv::Salt salt = 0;
  int64_t submitted_us = 0, deadline_us = -1, paused_us = -1;
  int32_t cached = 0;
  int32_t scored = 0;   // prompt tokens whose kPrompt was given
  int32_t open = 0;     // choices that have not ended
  bool counted = true;  // among the waiting
  bool started = false;
  sched::StepId last_step = -1;  // that views its numbers

  int32_t prompt_tokens() const { return static_cast<int32_t>(request.prompt.size()); }
};

}  // namespace bora::engine
