#include "serve/services.h"

#include <algorithm>
#include <cmath>

#include "serve/generation.h"

namespace bora::serve {

Services::Services(const ServiceOptions& options, const Context& context)
    : options_(options),
      context_(context),
      metrics_(context.metrics, options.vllm_names),
      generations_(std::make_unique<Generations>(this)),
      rng_(options.seed) {}

Services::~Services() = default;

void Services::add_model(ServedModel model) {
  std::lock_guard lock(mutex_);
  models_.push_back(std::make_shared<const ServedModel>(std::move(model)));
}

std::vector<std::shared_ptr<const ServedModel>> Services::models() const {
  std::lock_guard lock(mutex_);
  return models_;
}

Result<std::shared_ptr<const ServedModel>> Services::model(std::string_view name) const {
  const auto served = models();
  if (served.empty()) return unavailable("Loading model");
  if (name.empty()) {
    if (served.size() == 1) return served[0];
    return invalid_argument("several models are served: name one of them");
  }
  for (const auto& model : served) {
    if (model->name == name) return model;
  }
  std::string known;
  for (const auto& model : served) known += (known.empty() ? "'" : ", '") + model->name + "'";
  return not_found("no such model is served; there are: " + known);
}

Status Services::ready() const {
  if (draining_) return unavailable("the server is ending");
  const engine::Stats stats = context_.frontend->stats();
  if (stats.dead) return unavailable("the engine has ended; restart the server");
  if (stats.draining) return unavailable("the server is ending");
  if (models().empty()) return unavailable("Loading model");
  // A step takes far below a second: half a minute without one while there is work means that it is stuck.
  constexpr int64_t kStuckUs = 30'000'000;
  if (stats.running > 0 && stats.last_step_us >= 0 && context_.clock->now_us() - stats.last_step_us > kStuckUs)
    return unavailable("the engine has made no step for 30 seconds");
  return {};
}

std::string Services::new_id(std::string_view prefix) {
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string id(prefix);
  std::lock_guard lock(mutex_);
  for (int i = 0; i < 24; ++i) id.push_back(kDigits[rng_.below(36)]);
  return id;
}

int64_t Services::draw_seed() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(rng_.next() >> 11);
}

int Services::retry_after() const {
  const engine::Stats stats = context_.frontend->stats();
  if (stats.finished_per_second <= 0) return stats.waiting > 0 ? 10 : 1;
  return static_cast<int>(std::clamp(std::ceil(stats.waiting / stats.finished_per_second), 1.0, 60.0));
}

}  // namespace bora::serve
