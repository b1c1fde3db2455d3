// Host: the engines of a process behind one front end, one memory budget and one device. It loads models, runs a step
// loop
// a model on a thread of its own, and answers by engine.h.
//
// Threads: the members of Frontend may be called from any thread; load and drain from the composition root.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/model_text.h"

namespace bora::engine {

struct HostOptions {
  int32_t max_waiting = 1024;    // requests that wait, of all models
  int32_t max_events = 256;      // events that wait for a reader before its request pauses
  int64_t stall_timeout_us = 0;  // a paused reader that long ends its request with kCancelled; 0 = never
  uint64_t seed = 0;             // of the seeds drawn for requests that bring none
};

struct ModelOptions {
  std::string name;         // as clients call it
  std::string path;         // a checkpoint
  int32_t max_context = 0;  // positions a sequence; 0 = the model's own, or what the memory holds
  int32_t max_batch = 16;   // sequences a step
  int32_t max_batch_tokens = 512;
  int64_t kv_memory = 0;  // bytes of state; 0 = chosen from the context and the batch
  DType kv_dtype = DType::kBF16;
  int64_t step_target_us = 50'000;
  int32_t steps_in_flight = 2;
  ModelTextOptions text;
};

class Host : public Frontend {
 public:
  // All outlive the host.
  struct Context {
    device::Device* device = nullptr;
    const Clock* clock = nullptr;
    Logger* log = nullptr;
    MetricsRegistry* metrics = nullptr;
  };
  static Result<std::unique_ptr<Host>> create(const HostOptions& options, const Context& context);

  // Plans, loads and starts a model; returns when it answers. The plan is checked against the machine's memory first,
  // and
  // the message of a refusal says the bytes and which option to lower. models() shows the state meanwhile.
  virtual Status load(const ModelOptions& options) = 0;
  // Null when no such model is loaded. Lives as long as the host.
  virtual const ModelText* text(const std::string& model) const = 0;
  // Refuses new requests; returns when the running ones have ended or the time is over (those left are cancelled).
  virtual void drain(int64_t limit_us) = 0;
};

}  // namespace bora::engine
