#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace bora::sample {
namespace {

double log_sum_exp(std::span<const float> logits, double most) {
  double sum = 0;
  for (float v : logits) {
    if (!std::isnan(v)) sum += std::exp(static_cast<double>(v) - most);
  }
  return most + std::log(sum);
}

// Ids in the order in which they are drawn from: logit descending, id ascending.
std::vector<int32_t> candidates(std::span<const float> logits, int32_t top_k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](int32_t id) { return std::isnan(logits[static_cast<size_t>(id)]); });
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const size_t keep = top_k > 0 ? std::min(ids.size(), static_cast<size_t>(top_k)) : ids.size();
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(keep), ids.end(), before);
  ids.resize(keep);
  return ids;
}

}  // namespace

Status check(const Params& p) {
  if (!(p.temperature >= 0 && p.temperature <= 100)) return invalid_argument("temperature must be 0 to 100");
  if (p.top_k < 0) return invalid_argument("top_k must not be negative");
  if (!(p.top_p > 0 && p.top_p <= 1)) return invalid_argument("top_p must be above 0 and at most 1");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return invalid_argument("min_p must be 0 to 1");
  return {};
}

Picked pick(std::span<const float> logits, const Params& p, int32_t position) {
  const std::vector<int32_t> ids = candidates(logits, p.temperature == 0 ? 1 : p.top_k);
  if (ids.empty()) return {};
  const double most = static_cast<double>(logits[static_cast<size_t>(ids[0])]);
  const double total = log_sum_exp(logits, most);
  const auto picked = [&](int32_t id) {
    return Picked{id, static_cast<double>(logits[static_cast<size_t>(id)]) - total};
  };
  if (p.temperature == 0 || std::isinf(most)) return picked(ids[0]);
  std::vector<double> weights;
  double sum = 0;
  for (int32_t id : ids) {
    const double w = std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - most) / p.temperature);
    if (w < p.min_p && !weights.empty()) break;
    weights.push_back(w);
    sum += w;
  }
  // The shortest beginning that holds top_p of what is left.
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < p.top_p * sum)) kept += weights[count++];
  const double u =
      static_cast<double>(noise_unit(p.seed, static_cast<uint32_t>(p.choice), static_cast<uint32_t>(position), 0));
  double at = 0;
  for (size_t i = 0; i < count; ++i) {
    at += weights[i];
    if (u * kept < at) return picked(ids[i]);
  }
  return picked(ids[count - 1]);
}

}  // namespace bora::sample
