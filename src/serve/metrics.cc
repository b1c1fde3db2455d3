#include "serve/metrics.h"

namespace bora::serve {
namespace {

std::vector<double> seconds_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120, 300};
}

std::vector<double> token_bounds() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
}

Labels of_model(const std::string& model) { return {{"model_name", model}}; }

}  // namespace

void ServeMetrics::count(std::string_view name, std::string_view alias, std::string_view help, const Labels& labels,
                         double n) {
  registry_->counter(name, help, labels).add(n);
  if (vllm_ && !alias.empty()) registry_->counter(alias, help, labels).add(n);
}

void ServeMetrics::set(std::string_view name, std::string_view alias, std::string_view help, const Labels& labels,
                       double v) {
  registry_->gauge(name, help, labels).set(v);
  if (vllm_ && !alias.empty()) registry_->gauge(alias, help, labels).set(v);
}

void ServeMetrics::observe(std::string_view name, std::string_view alias, std::string_view help, const Labels& labels,
                           double v, bool tokens) {
  if (v < 0) return;
  registry_->histogram(name, help, tokens ? token_bounds() : seconds_bounds(), labels).observe(v);
  if (vllm_ && !alias.empty())
    registry_->histogram(alias, help, tokens ? token_bounds() : seconds_bounds(), labels).observe(v);
}

void ServeMetrics::answered(std::string_view route, int status, double seconds) {
  const std::string name(route);
  count("bora_http_requests_total", "", "HTTP requests by route and status; 499: the client left",
        {{"route", name}, {"status", std::to_string(status)}}, 1);
  observe("bora_http_request_seconds", "", "Time from a request's head to the end of its answer", {{"route", name}},
          seconds, false);
}

void ServeMetrics::between_tokens(const std::string& model, double seconds) {
  observe("bora_inter_token_seconds", "vllm:inter_token_latency_seconds", "Time between tokens of one answer",
          of_model(model), seconds, false);
}

void ServeMetrics::finished(const FinishedRequest& r) {
  const Labels model = of_model(r.model);
  count("bora_prompt_tokens_total", "vllm:prompt_tokens_total", "Prompt tokens of ended requests", model,
        r.prompt_tokens);
  count("bora_cached_prompt_tokens_total", "vllm:prefix_cache_hits_total",
        "Prompt tokens that the prefix cache spared", model, r.cached_tokens);
  if (vllm_) {
    registry_->counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache", model)
        .add(r.prompt_tokens);
  }
  count("bora_generation_tokens_total", "vllm:generation_tokens_total", "Generated tokens of ended requests", model,
        r.completion_tokens);
  count("bora_requests_finished_total", "vllm:request_success_total", "Ended requests by reason",
        {{"model_name", r.model}, {"finished_reason", r.reason}}, 1);
  observe("bora_request_prompt_tokens", "vllm:request_prompt_tokens", "Prompt tokens a request", model,
          r.prompt_tokens, true);
  observe("bora_request_generation_tokens", "vllm:request_generation_tokens", "Generated tokens a request", model,
          r.completion_tokens, true);
  observe("bora_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
          "Time from a request's head to its first token", model, r.first_token_s, false);
  observe("bora_request_seconds", "vllm:e2e_request_latency_seconds", "Time from a request's head to its last token",
          model, r.total_s, false);
  observe("bora_request_queue_seconds", "vllm:request_queue_time_seconds", "Time that a request waited for a place",
          model, r.queue_s, false);
  observe("bora_request_prefill_seconds", "vllm:request_prefill_time_seconds",
          "Time from the place to the first token", model, r.prefill_s, false);
  observe("bora_request_decode_seconds", "vllm:request_decode_time_seconds", "Time from the first token to the last",
          model, r.decode_s, false);
}

void ServeMetrics::sample(const engine::Stats& s, const std::string& model, double connections) {
  const Labels labels = of_model(model);
  set("bora_requests_running", "vllm:num_requests_running", "Requests that own blocks", labels, s.running);
  set("bora_requests_waiting", "vllm:num_requests_waiting", "Requests that wait for a place", labels, s.waiting);
  set("bora_requests_waiting_max", "", "Requests that may wait before 429", labels, s.queue_limit);
  set("bora_kv_used_ratio", "vllm:kv_cache_usage_perc", "Share of cache blocks owned by live requests", labels,
      s.kv_used);
  set("bora_engine_steps", "", "Steps run since the start", labels, static_cast<double>(s.steps));
  set("bora_draining", "", "1 while the server ends", {}, s.draining ? 1 : 0);
  set("bora_connections", "", "Open connections", {}, connections);
}

}  // namespace bora::serve
