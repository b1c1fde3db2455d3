// The server's metrics under its own names (bora_…), and under vLLM's when asked, since dashboards and autoscalers
// read those. docs/metrics.md lists them. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/metrics.h"
#include "engine/engine.h"

namespace bora::serve {

struct FinishedRequest {
  std::string model, reason;  // reason: stop, length, abort, error
  int32_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  double queue_s = -1, prefill_s = -1, decode_s = -1, first_token_s = -1, total_s = 0;  // below 0: not known
};

class ServeMetrics {
 public:
  ServeMetrics(MetricsRegistry* registry, bool vllm_names) : registry_(registry), vllm_(vllm_names) {}

  void answered(std::string_view route, int status, double seconds);
  void between_tokens(const std::string& model, double seconds);
  void finished(const FinishedRequest& request);
  // Gauges, right before they are rendered.
  void sample(const engine::Stats& stats, const std::string& model, double connections);

 private:
  void count(std::string_view name, std::string_view alias, std::string_view help, const Labels& labels, double n);
  void set(std::string_view name, std::string_view alias, std::string_view help, const Labels& labels, double v);
  void observe(std::string_view name, std::string_view alias, std::string_view help, const Labels& labels, double v,
               bool tokens);
  MetricsRegistry* registry_;
  const bool vllm_;
};

}  // namespace bora::serve
