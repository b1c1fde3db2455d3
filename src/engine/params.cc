#include "engine/params.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace bora::engine {
namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

// Low itself is allowed unless `open`.
struct Range {
  const char* field;
  double value, low, high;
  bool open = false;
};

Status check_ranges(const SamplingParams& p) {
  const Range ranges[] = {{"temperature", p.temperature, 0, 100},
                          {"dynatemp_range", p.dynatemp_range, 0, 100},
                          {"dynatemp_exponent", p.dynatemp_exponent, 0, 100, true},
                          {"top_k", double(p.top_k), 0, 2147483647},
                          {"top_p", p.top_p, 0, 1, true},
                          {"min_p", p.min_p, 0, 1},
                          {"typical_p", p.typical_p, 0, 1, true},
                          {"top_n_sigma", p.top_n_sigma, -1e6, 1e6},
                          {"repetition_penalty", p.repetition_penalty, 0, 10, true},
                          {"repetition_last_n", double(p.repetition_last_n), -1, 2147483647},
                          {"presence_penalty", p.presence_penalty, -2, 2},
                          {"frequency_penalty", p.frequency_penalty, -2, 2},
                          {"xtc_probability", p.xtc_probability, 0, 1},
                          {"xtc_threshold", p.xtc_threshold, 0, 0.5},
                          {"dry_multiplier", p.dry_multiplier, 0, 100},
                          {"dry_base", p.dry_base, 1, 100},
                          {"dry_allowed_length", double(p.dry_allowed_length), 1, 2147483647},
                          {"dry_last_n", double(p.dry_last_n), -1, 2147483647},
                          {"mirostat", double(p.mirostat), 0, 2},
                          {"mirostat_tau", p.mirostat_tau, 0, 100},
                          {"mirostat_eta", p.mirostat_eta, 0, 1},
                          {"logprobs", double(p.logprobs), -1, kMaxLogprobs},
                          {"min_tokens", double(p.min_tokens), 0, 2147483647}};
  for (const Range& r : ranges) {
    const bool low = r.open ? r.value > r.low : r.value >= r.low;
    if (low && r.value <= r.high) continue;
    return invalid_argument(std::string(r.field) + " must be " + (r.open ? "above " : "") + number(r.low) +
                            (r.open ? " and at most " : " to ") + number(r.high) + ", got " + number(r.value));
  }
  return {};
}

Status check_ids(const char* field, std::span<const int32_t> ids, int32_t vocab) {
  for (int32_t id : ids) {
    if (id < 0 || id >= vocab)
      return invalid_argument(std::string(field) + ": token id " + std::to_string(id) +
                              " is outside the vocabulary of " + std::to_string(vocab));
  }
  return {};
}

Status check_lists(const SamplingParams& p, int32_t vocab) {
  for (const auto& [id, value] : p.logit_bias) {
    BORA_TRY(check_ids("logit_bias", std::span(&id, 1), vocab));
    if (std::isnan(value))
      return invalid_argument("logit_bias: the value of token " + std::to_string(id) + " is no number");
  }
  BORA_TRY(check_ids("banned_tokens", p.banned_tokens, vocab));
  BORA_TRY(check_ids("allowed_tokens", p.allowed_tokens, vocab));
  BORA_TRY(check_ids("stop_tokens", p.stop_tokens, vocab));
  if (p.bad_words.size() > 1024) return invalid_argument("bad_words may hold at most 1024 sequences");
  for (const auto& word : p.bad_words) {
    if (word.empty() || word.size() > 256) return invalid_argument("bad_words: a sequence must have 1 to 256 tokens");
    BORA_TRY(check_ids("bad_words", word, vocab));
  }
  if (p.stop.size() > 64)
    return invalid_argument("stop may hold at most 64 strings, got " + std::to_string(p.stop.size()));
  for (const std::string& s : p.stop) {
    if (s.empty() || s.size() > 4096) return invalid_argument("stop: a string must have 1 to 4096 bytes");
  }
  if (p.dry_breakers.size() > 64) return invalid_argument("dry_breakers may hold at most 64 strings");
  for (const std::string& s : p.dry_breakers) {
    if (s.empty() || s.size() > 256) return invalid_argument("dry_breakers: a string must have 1 to 256 bytes");
  }
  return {};
}

std::vector<int32_t> sorted(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Status check_request(const Request& r, const RequestLimits& limits) {
  if (r.prompt.empty()) return invalid_argument("prompt must not be empty");
  BORA_TRY(check_ids("prompt", r.prompt, limits.vocab));
  if (r.prompt.size() >= static_cast<size_t>(limits.max_context)) {
    return invalid_argument("prompt has " + std::to_string(r.prompt.size()) + " tokens; the context holds " +
                            std::to_string(limits.max_context) + " and needs one for the answer");
  }
  if (r.max_tokens < 0) return invalid_argument("max_tokens must be at least 0, got " + std::to_string(r.max_tokens));
  if (r.choices < 1 || r.choices > limits.max_choices) {
    return invalid_argument("n must be 1 to " + std::to_string(limits.max_choices) + ", got " +
                            std::to_string(r.choices));
  }
  if (r.deadline_us < -1) return invalid_argument("deadline_us must be at least 0, or -1 for none");
  if (r.prompt_logprobs < -1 || r.prompt_logprobs > kMaxLogprobs) {
    return invalid_argument("prompt_logprobs must be -1 to " + std::to_string(kMaxLogprobs) + ", got " +
                            std::to_string(r.prompt_logprobs));
  }
  if (r.prompt_logprobs >= 0 && limits.score_rows < limits.align + r.choices) {
    return invalid_argument("prompt_logprobs leaves room for n up to " +
                            std::to_string(limits.score_rows - limits.align) + ", got " + std::to_string(r.choices));
  }
  BORA_TRY(check_ranges(r.sampling));
  return check_lists(r.sampling, limits.vocab);
}

PickStore::PickStore(const Request& r, uint64_t seed, std::vector<int32_t> model_end_ids,
                     const text::Tokenizer* tokenizer) {
  const SamplingParams& p = r.sampling;
  banned_ = sorted(p.banned_tokens);
  allowed_ = sorted(p.allowed_tokens);
  stop_tokens_ = sorted(p.stop_tokens);
  end_ids_ = p.ignore_eos ? std::vector<int32_t>() : std::move(model_end_ids);
  end_ids_.insert(end_ids_.end(), stop_tokens_.begin(), stop_tokens_.end());
  end_ids_ = sorted(std::move(end_ids_));
  bias_ = p.logit_bias;
  std::stable_sort(bias_.begin(), bias_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& word : p.bad_words) {
    bad_words_.insert(bad_words_.end(), word.begin(), word.end());
    bad_word_ends_.push_back(static_cast<int32_t>(bad_words_.size()));
  }
  if (p.dry_multiplier > 0 && tokenizer != nullptr) {
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      const std::string_view bytes = tokenizer->token_bytes(id);
      const auto breaks = [&](const std::string& s) { return bytes.find(s) != std::string_view::npos; };
      if (std::any_of(p.dry_breakers.begin(), p.dry_breakers.end(), breaks)) breakers_.push_back(id);
    }
  }
  base_ = {.temperature = p.temperature,
           .dynatemp_range = p.dynatemp_range,
           .dynatemp_exponent = p.dynatemp_exponent,
           .top_k = p.top_k,
           .top_p = p.top_p,
           .min_p = p.min_p,
           .typical_p = p.typical_p,
           .top_n_sigma = p.top_n_sigma,
           .xtc_probability = p.xtc_probability,
           .xtc_threshold = p.xtc_threshold,
           .mirostat = p.mirostat,
           .mirostat_tau = p.mirostat_tau,
           .mirostat_eta = p.mirostat_eta,
           .repetition_penalty = p.repetition_penalty,
           .repetition_last_n = p.repetition_last_n,
           .presence_penalty = p.presence_penalty,
           .frequency_penalty = p.frequency_penalty,
           .dry_multiplier = p.dry_multiplier,
           .dry_base = p.dry_base,
           .dry_allowed_length = p.dry_allowed_length,
           .dry_last_n = p.dry_last_n,
           .min_tokens = p.min_tokens,
           .seed = seed,
           .logprobs = p.logprobs,
           .bias = bias_,
           .banned = banned_,
           .allowed = allowed_,
           .end_ids = end_ids_,
           .dry_breakers = breakers_,
           .bad_words = bad_words_,
           .bad_word_ends = bad_word_ends_};
}

ir::PickParams PickStore::params(int32_t choice) const {
  ir::PickParams p = base_;
  p.choice = choice;
  return p;
}

ir::PickParams PickStore::scoring(int32_t alternatives) const {
  ir::PickParams p;
  p.logprobs = alternatives;
  return p;
}

bool PickStore::ends(int32_t id) const { return std::binary_search(end_ids_.begin(), end_ids_.end(), id); }
bool PickStore::is_stop_token(int32_t id) const {
  return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), id);
}

}  // namespace bora::engine
