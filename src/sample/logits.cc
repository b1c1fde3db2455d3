// What changes single logits before anything is cut away.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sample/sampler.h"

namespace bora::sample {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

std::span<const int32_t> last_tokens(std::span<const int32_t> h, int32_t n) {
  return n < 0 ? h : h.last(std::min(h.size(), static_cast<size_t>(n)));
}

void forbid(const Input& in, const Params& p, std::vector<double>* x) {
  const auto never = [x](int32_t id) { (*x)[static_cast<size_t>(id)] = kNever; };
  for (const int32_t id : p.banned) never(id);
  for (size_t w = 0; w < p.bad_word_ends.size(); ++w) {
    const int32_t begin = w == 0 ? 0 : p.bad_word_ends[w - 1], end = p.bad_word_ends[w];
    const size_t head = static_cast<size_t>(end - begin - 1);
    bool completes = head <= in.history.size();
    for (size_t i = 0; completes && i < head; ++i)
      completes = in.history[in.history.size() - head + i] == p.bad_words[static_cast<size_t>(begin) + i];
    if (completes) never(p.bad_words[static_cast<size_t>(end - 1)]);
  }
  for (size_t id = 0; id < x->size(); ++id) {
    const bool listed = p.allowed.empty() ||
                        std::find(p.allowed.begin(), p.allowed.end(), static_cast<int32_t>(id)) != p.allowed.end();
    const bool masked = !in.mask.empty() && (in.mask[id / 32] >> (id % 32) & 1u) == 0;
    if (!listed || masked) never(static_cast<int32_t>(id));
  }
  if (static_cast<int32_t>(in.history.size()) - in.prompt < p.min_tokens) {
    for (const int32_t id : p.end_ids) never(id);
  }
}

void penalize(const Input& in, const Params& p, std::vector<double>* x) {
  const auto recent = last_tokens(in.history, p.repetition_last_n);
  for (const int32_t id : std::set<int32_t>(recent.begin(), recent.end())) {
    double& v = (*x)[static_cast<size_t>(id)];
    const double penalty = static_cast<double>(p.repetition_penalty);
    v = v > 0 ? v / penalty : v * penalty;
  }
  std::map<int32_t, int32_t> counts;
  for (size_t i = static_cast<size_t>(in.prompt); i < in.history.size(); ++i) ++counts[in.history[i]];
  for (const auto& [id, count] : counts) {
    (*x)[static_cast<size_t>(id)] -=
        count * static_cast<double>(p.frequency_penalty) + static_cast<double>(p.presence_penalty);
  }
}

// For every place of the history: how long is what stands before it and stands at the end as well?
void dry(const Input& in, const Params& p, std::vector<double>* x) {
  const auto h = last_tokens(in.history, p.dry_last_n);
  const auto breaks = [&](int32_t id) {
    return std::find(p.dry_breakers.begin(), p.dry_breakers.end(), id) != p.dry_breakers.end();
  };
  std::map<int32_t, int32_t> longest;
  for (size_t at = 1; at < h.size(); ++at) {
    int32_t length = 0;
    for (size_t k = 1; k <= at; ++k, ++length) {
      const int32_t a = h[at - k], b = h[h.size() - k];
      if (a != b || breaks(a)) break;
    }
    longest[h[at]] = std::max(longest[h[at]], length);
  }
  for (const auto& [id, length] : longest) {
    if (length < p.dry_allowed_length || breaks(id)) continue;
    (*x)[static_cast<size_t>(id)] -=
        std::min(1e30, static_cast<double>(p.dry_multiplier) *
                           std::pow(static_cast<double>(p.dry_base), length - p.dry_allowed_length));
  }
}

}  // namespace

std::vector<double> processed_logits(const Input& in, const Params& p) {
  std::vector<double> x(in.logits.begin(), in.logits.end());
  for (const auto& [id, value] : p.bias) x[static_cast<size_t>(id)] += static_cast<double>(value);
  forbid(in, p, &x);
  penalize(in, p, &x);
  if (p.dry_multiplier > 0) dry(in, p, &x);
  return x;
}

}  // namespace bora::sample
