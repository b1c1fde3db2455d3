#include <algorithm>
#include <cmath>
#include <string>

#include "sample/sampler.h"

namespace bora::sample {
namespace {

// A record a number: name, where it lies, its range. `open` leaves the lower bound out.
struct Range {
  const char* name;
  float Params::*field;
  float low, high;
  bool open;
};
constexpr float kEndless = std::numeric_limits<float>::max();
constexpr Range kRanges[] = {{"temperature", &Params::temperature, 0, 100, false},
                             {"dynatemp_range", &Params::dynatemp_range, 0, 100, false},
                             {"dynatemp_exponent", &Params::dynatemp_exponent, 0, 100, true},
                             {"top_p", &Params::top_p, 0, 1, true},
                             {"min_p", &Params::min_p, 0, 1, false},
                             {"typical_p", &Params::typical_p, 0, 1, true},
                             {"top_n_sigma", &Params::top_n_sigma, -kEndless, kEndless, false},
                             {"xtc_probability", &Params::xtc_probability, 0, 1, false},
                             {"xtc_threshold", &Params::xtc_threshold, 0, 0.5f, false},
                             {"mirostat_tau", &Params::mirostat_tau, 0, 100, true},
                             {"mirostat_eta", &Params::mirostat_eta, 0, 1, true},
                             {"repetition_penalty", &Params::repetition_penalty, 0, 10, true},
                             {"presence_penalty", &Params::presence_penalty, -2, 2, false},
                             {"frequency_penalty", &Params::frequency_penalty, -2, 2, false},
                             {"dry_multiplier", &Params::dry_multiplier, 0, 100, false},
                             {"dry_base", &Params::dry_base, 1, 100, false}};

struct IntRange {
  const char* name;
  int32_t Params::*field;
  int32_t low, high;
};
constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
constexpr IntRange kIntRanges[] = {{"top_k", &Params::top_k, 0, kMost},
                                   {"mirostat", &Params::mirostat, 0, 2},
                                   {"repetition_last_n", &Params::repetition_last_n, -1, kMost},
                                   {"dry_allowed_length", &Params::dry_allowed_length, 1, kMost},
                                   {"dry_last_n", &Params::dry_last_n, -1, kMost},
                                   {"min_tokens", &Params::min_tokens, 0, kMost},
                                   {"choice", &Params::choice, 0, kMost},
                                   {"logprobs", &Params::logprobs, -1, 128}};

std::string shown(double v) {
  std::string s = std::to_string(v);
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s;
}

Status check_ids(std::span<const int32_t> ids, int32_t vocab, const char* name) {
  for (const int32_t id : ids) {
    if (id < 0 || (vocab >= 0 && id >= vocab))
      return invalid_argument(std::string(name) + ": token id " + std::to_string(id) + " is outside the vocabulary");
  }
  return {};
}

Status check_lists(const Params& p, int32_t vocab) {
  for (const auto& [id, value] : p.bias) {
    BORA_TRY(check_ids({&id, 1}, vocab, "bias"));
    if (!std::isfinite(value)) return invalid_argument("bias: values must be finite numbers");
  }
  BORA_TRY(check_ids(p.banned, vocab, "banned"));
  BORA_TRY(check_ids(p.allowed, vocab, "allowed"));
  BORA_TRY(check_ids(p.end_ids, vocab, "end_ids"));
  BORA_TRY(check_ids(p.dry_breakers, vocab, "dry_breakers"));
  BORA_TRY(check_ids(p.bad_words, vocab, "bad_words"));
  if (!std::is_sorted(p.allowed.begin(), p.allowed.end())) return invalid_argument("allowed: ids must ascend");
  int32_t last = 0;
  for (const int32_t end : p.bad_word_ends) {
    if (end <= last) return invalid_argument("bad_word_ends: a word must have a token");
    last = end;
  }
  if (static_cast<size_t>(last) != p.bad_words.size())
    return invalid_argument("bad_word_ends: must end where bad_words ends");
  return {};
}

}  // namespace

Status check(const Params& p, int32_t vocab) {
  for (const Range& r : kRanges) {
    const float v = p.*r.field;
    if (v <= r.high && (r.open ? v > r.low : v >= r.low)) continue;
    if (r.high == kEndless) return invalid_argument(std::string(r.name) + " must be a finite number");
    return invalid_argument(std::string(r.name) + " must be " + (r.open ? "above " : "at least ") +
                            shown(static_cast<double>(r.low)) + " and at most " + shown(static_cast<double>(r.high)));
  }
  for (const IntRange& r : kIntRanges) {
    const int32_t v = p.*r.field;
    if (v >= r.low && v <= r.high) continue;
    return invalid_argument(std::string(r.name) + " must be at least " + std::to_string(r.low) +
                            (r.high == kMost ? "" : " and at most " + std::to_string(r.high)));
  }
  return check_lists(p, vocab);
}

}  // namespace bora::sample
