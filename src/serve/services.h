// Services: what handlers may use. Made by the composition root; outlives every request. Any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/model_text.h"
#include "serve/metrics.h"

namespace bora::serve {

class Generations;

struct ServedModel {
  std::string name;
  const engine::ModelText* text = nullptr;  // outlives the services
  int32_t max_context = 0;                  // positions; 0 = not known
  int64_t created = 0;                      // seconds since the epoch
  bool parser_forced = false;               // the answer format was named by the operator, not guessed
};

struct ServiceOptions {
  std::string version = "0", commit;
  bool strict = false;       // unknown fields are 400 instead of listed
  bool vllm_names = false;   // metrics under vLLM's names too
  int32_t max_choices = 8;   // n
  int32_t max_prompts = 64;  // of one completion request
  uint64_t seed = 0;         // of ids and of the seeds drawn for requests without one
};

class Services {
 public:
  struct Context {  // all outlive the services
    engine::Frontend* frontend = nullptr;
    const Clock* clock = nullptr;
    Logger* log = nullptr;
    MetricsRegistry* metrics = nullptr;
  };
  Services(const ServiceOptions& options, const Context& context);
  ~Services();

  const ServiceOptions& options() const { return options_; }
  engine::Frontend& frontend() { return *context_.frontend; }
  const Clock& clock() const { return *context_.clock; }
  Logger& log() { return *context_.log; }
  MetricsRegistry& registry() { return *context_.metrics; }
  ServeMetrics& metrics() { return metrics_; }
  Generations& generations() { return *generations_; }

  // A model is served from now on.
  void add_model(ServedModel model);
  std::vector<std::shared_ptr<const ServedModel>> models() const;
  // Empty name: the only one. kNotFound when none has the name; kUnavailable while it loads.
  Result<std::shared_ptr<const ServedModel>> model(std::string_view name) const;

  // Neither loading, nor draining, nor dead or stuck.
  Status ready() const;
  void set_draining() { draining_ = true; }
  bool draining() const { return draining_; }

  void set_connections(std::function<size_t()> probe) { connections_ = std::move(probe); }  // before serving
  size_t connections() const { return connections_ ? connections_() : 0; }

  std::string new_id(std::string_view prefix);  // "chatcmpl-…"
  int64_t draw_seed();                          // 53 bits, so that every client can send it back
  // Seconds until a place in the queue is likely, from the measured rate; 1 to 60.
  int retry_after() const;

 private:
  const ServiceOptions options_;
  const Context context_;
  ServeMetrics metrics_;
  std::unique_ptr<Generations> generations_;
  std::function<size_t()> connections_;
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<const ServedModel>> models_;
  Rng rng_;
};

}  // namespace bora::serve
