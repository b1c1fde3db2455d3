// What is done to a row of logits to pick a token: plain numbers that devices, the host reference and the engine share.
//
// Neutral values switch a processor off. Order: bias, banned tokens and words, allowed tokens, minimum length and mask;
// then penalties and DRY over the choice's own history; the log-probability that is reported is that of the raw logits.
// Then, at temperature 0, the greatest logit (ties: the smallest id); else temperature, top_n_sigma, top_k, typical_p,
// min_p, top_p, XTC, and one draw whose noise is a function of (seed, choice, position) only. Mirostat replaces the
// truncations. A token depends on (logits, history, params, position) and on nothing else.
//
// Sources: nucleus sampling (Holtzman et al. 2020), locally typical sampling (Meister et al. 2022), min-p (Nguyen et
// al.
// 2024), top-n-sigma (Tang et al. 2024), mirostat 1 and 2 (Basu et al. 2021), repetition penalty (Keskar et al. 2019);
// presence and frequency penalties, DRY and XTC by their public definitions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace bora::ir {

struct PickParams {
  float temperature = 0;  // 0 = greedy
  float dynatemp_range = 0, dynatemp_exponent = 1;  // temperature +- range by the entropy of the row
  int32_t top_k = 0;                                // 0 = all
  float top_p = 1, min_p = 0, typical_p = 1;
  float top_n_sigma = 0;  // <= 0 = off
  float xtc_probability = 0, xtc_threshold = 0.1f;
  int32_t mirostat = 0;  // 0, 1 or 2
  float mirostat_tau = 5, mirostat_eta = 0.1f;
  float repetition_penalty = 1;        // over prompt and output
  int32_t repetition_last_n = -1;      // tokens it looks back over; -1 all
  float presence_penalty = 0, frequency_penalty = 0;  // over the output
  float dry_multiplier = 0, dry_base = 1.75f;
  int32_t dry_allowed_length = 2, dry_last_n = -1;
  int32_t min_tokens = 0;  // before as many are generated, `end_ids` are not picked
  uint64_t seed = 0;
  int32_t choice = 0;
  int32_t logprobs = -1;  // alternatives wanted beside the token's own, -1 none
  // Views live until the step is collected. Ids are inside the vocabulary; lists without an order of their own ascend.
  std::span<const std::pair<int32_t, float>> bias;  // added to logits
  std::span<const int32_t> banned;                  // never picked
  std::span<const int32_t> allowed;                 // empty = all
  std::span<const int32_t> end_ids;                 // see min_tokens
  std::span<const int32_t> dry_breakers;            // tokens that end a repeated sequence
  // Sequences that may not be completed: bad_words[bad_word_ends[i - 1] .. bad_word_ends[i]).
  std::span<const int32_t> bad_words, bad_word_ends;
};

}  // namespace bora::ir
