// Changes of single logits: bias, what may not be picked, penalties, DRY.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/pick.h"

namespace bora::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::span<const int32_t> last_tokens(std::span<const int32_t> h, int32_t n) {
  return n < 0 || static_cast<size_t>(n) >= h.size() ? h : h.last(static_cast<size_t>(n));
}

bool has_penalties(const ir::PickParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

bool has_ids(const PickInput& in) {
  const ir::PickParams& p = *in.params;
  const bool early = static_cast<int32_t>(in.history.size()) - in.prompt < p.min_tokens && !p.end_ids.empty();
  return !p.bias.empty() || !p.banned.empty() || !p.bad_word_ends.empty() || !p.allowed.empty() || early;
}

void ban_words(const PickInput& in, float* x) {
  const ir::PickParams& p = *in.params;
  int32_t begin = 0;
  for (const int32_t end : p.bad_word_ends) {
    const auto word = p.bad_words.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    begin = end;
    const auto head = word.first(word.size() - 1);
    if (head.size() <= in.history.size() && std::ranges::equal(head, in.history.last(head.size())))
      x[word.back()] = kNever;
  }
}

void apply_ids(const PickInput& in, float* x) {
  const ir::PickParams& p = *in.params;
  for (const auto& [id, value] : p.bias) x[id] += value;
  for (const int32_t id : p.banned) x[id] = kNever;
  ban_words(in, x);
  if (!p.allowed.empty()) {
    size_t next = 0;
    for (int32_t id = 0; id < in.vocab; ++id) {
      while (next < p.allowed.size() && p.allowed[next] < id) ++next;
      if (next == p.allowed.size() || p.allowed[next] != id) x[id] = kNever;
    }
  }
  if (static_cast<int32_t>(in.history.size()) - in.prompt < p.min_tokens) {
    for (const int32_t id : p.end_ids) x[id] = kNever;
  }
}

void apply_mask(const PickInput& in, float* x) {
  for (int32_t b = 0; b < in.vocab; b += 32) {
    const uint32_t word = in.mask[b / 32];
    if (word == ~0u) continue;
    const int32_t end = std::min(in.vocab, b + 32);
    for (int32_t id = b; id < end; ++id) {
      if ((word >> (id - b) & 1u) == 0) x[id] = kNever;
    }
  }
}

// Repetition over the last tokens of prompt and output, once a token; then frequency and presence over the output.
void apply_penalties(const PickInput& in, const PickScratch& s) {
  const ir::PickParams& p = *in.params;
  float* x = s.x;
  if (p.repetition_penalty != 1) {
    const auto recent = last_tokens(in.history, p.repetition_last_n);
    for (const int32_t id : recent) {
      if (s.counts[id]++ == 0) x[id] = x[id] > 0 ? x[id] / p.repetition_penalty : x[id] * p.repetition_penalty;
    }
    for (const int32_t id : recent) s.counts[id] = 0;
  }
  if (p.presence_penalty == 0 && p.frequency_penalty == 0) return;
  const size_t prompt = std::min(in.history.size(), static_cast<size_t>(std::max(0, in.prompt)));
  const auto output = in.history.subspan(prompt);
  for (const int32_t id : output) ++s.counts[id];
  for (const int32_t id : output) {
    if (s.counts[id] == 0) continue;
    x[id] -= static_cast<float>(s.counts[id]) * p.frequency_penalty + p.presence_penalty;
    s.counts[id] = 0;
  }
}

// A token that would prolong a sequence which stands in the history already loses multiplier * base ^ (length -
// allowed), length being that of the longest such sequence; sequences do not reach over breakers. The lengths of all
// places at once: the Z function (Gusfield 1997) of the history read backwards.
void apply_dry(const PickInput& in, const PickScratch& s) {
  const ir::PickParams& p = *in.params;
  const auto h = last_tokens(in.history, p.dry_last_n);
  const int32_t n = static_cast<int32_t>(h.size());
  const auto breaks = [&](int32_t id) { return std::ranges::find(p.dry_breakers, id) != p.dry_breakers.end(); };
  int32_t limit = 0;
  while (limit < n && !breaks(h[static_cast<size_t>(n - 1 - limit)])) ++limit;
  if (limit < p.dry_allowed_length) return;
  const auto back = [&](int32_t j) { return h[static_cast<size_t>(n - 1 - j)]; };
  int32_t left = 0, right = 0;
  for (int32_t j = 1; j < n; ++j) {
    int32_t z = j < right ? std::min(right - j, s.suffix[j - left]) : 0;
    while (j + z < n && back(z) == back(j + z)) ++z;
    s.suffix[j] = z;
    if (j + z > right) {
      left = j;
      right = j + z;
    }
    const int32_t token = back(j - 1);
    s.counts[token] = std::max(s.counts[token], std::min(z, limit));
  }
  for (int32_t j = 1; j < n; ++j) {
    const int32_t token = back(j - 1), length = s.counts[token];
    s.counts[token] = 0;
    if (length < p.dry_allowed_length || length == 0 || breaks(token)) continue;
    const double more = std::pow(static_cast<double>(p.dry_base), length - p.dry_allowed_length);
    s.x[token] -= static_cast<float>(std::min(1e30, static_cast<double>(p.dry_multiplier) * more));
  }
}

}  // namespace

bool reads_history(const ir::PickParams& p) {
  return has_penalties(p) || p.dry_multiplier != 0 || !p.bad_word_ends.empty();
}

bool apply_logit_changes(const PickInput& in, const PickScratch& s) {
  const ir::PickParams& p = *in.params;
  const bool ids = has_ids(in), penalties = has_penalties(p), dry = p.dry_multiplier != 0;
  if (!ids && in.mask == nullptr && !penalties && !dry) return false;
  std::memcpy(s.x, in.logits, static_cast<size_t>(in.vocab) * sizeof(float));
  if (ids) apply_ids(in, s.x);
  if (in.mask != nullptr) apply_mask(in, s.x);
  if (penalties) apply_penalties(in, s);
  if (dry) apply_dry(in, s);
  return true;
}

}  // namespace bora::cpu
