// The host reference of sampling: float64, one row at a time. What devices do must agree with it.
//
// Order: temperature, top_k, min_p, top_p; then one draw by inverse distribution over the candidates in descending
// order (equal logits by ascending id). The noise of a token is a function of (seed, choice, position) only, so an
// answer never depends on what else runs. Stateless; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace bora::sample {

struct Params {
  double temperature = 0;  // 0 = greedy; [0, 100]
  int32_t top_k = 0;       // 0 = all
  double top_p = 1;        // (0, 1]
  double min_p = 0;        // [0, 1]: candidates at least min_p times as likely as the likeliest
  uint64_t seed = 0;
  int32_t choice = 0;
};

// Ranges; the message names the parameter.
Status check(const Params& params);

struct Picked {
  int32_t id = -1;
  double logprob = 0;  // of the model's own distribution: before temperature and filters
};

// REQUIRES: check(params) is OK, logits are not empty. NaN logits are never picked; if all are, id is -1.
Picked pick(std::span<const float> logits, const Params& params, int32_t position);

}  // namespace bora::sample
