// The host reference of sampling: every processor of ir::PickParams in float64, one row at a time, written to be
// read. What devices pick must agree with it except where a decision hangs by less than their rounding
// (Picked::margin).
//
// Order as ir/pick.h says. A draw adds probabilities by ascending id up to noise_unit(seed, choice, position, 0); XTC
// takes lane 1. Stateless; any thread.
//
// What the public definitions leave open is decided so:
// - Equal logits: the smaller id goes first. Not-a-number and -infinity are never picked; +infinity always is.
// - dynatemp: entropy of softmax(logits) over all tokens that are left, relative to that of a flat row.
// - top_n_sigma: population standard deviation over the finite logits.
// - typical_p and top_p keep the shortest beginning that reaches their share of what is left.
// - DRY: a token that is a breaker is never penalised; matches do not reach over breakers; penalties stop at 1e30.
// - bad words look at prompt and output.
// - Mirostat 1 estimates its exponent from the 100 likeliest tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "ir/pick.h"

namespace bora::sample {

using Params = ir::PickParams;

// Ranges; the message names the field. With a vocabulary ids are checked too.
Status check(const Params& params, int32_t vocab = -1);

// One row and what its choice has seen: tokens at positions 0 .. history.size(), the last being the one before the
// token that is picked.
struct Input {
  std::span<const float> logits;
  std::span<const int32_t> history;
  int32_t prompt = 0;                   // tokens of the history that are the prompt
  std::span<const uint32_t> mask = {};  // [ceil(V / 32)], bit set = allowed; empty = all
  double mu = -1;                       // mirostat's; negative: 2 * tau, that of a first token
};

struct Candidate {
  int32_t id = -1;
  double logit = 0;        // after bias, bans and penalties
  double probability = 0;  // among the candidates
};

struct Picked {
  int32_t id = -1;    // -1: nothing may be picked
  double mu = 0;      // mirostat's for the next position
  double margin = 0;  // relative: how near the nearest of the decisions was to falling the other way
};

struct Alternative {
  int32_t id = -1;
  double logprob = 0;
};

struct Logprobs {
  double logprob = 0;            // of the model's own distribution: softmax over the raw logits
  int32_t rank = 0;              // tokens with a greater raw logit
  std::vector<Alternative> top;  // best first
};

// REQUIRES of all: check(params, logits.size()) is OK, logits are not empty, ids of the history are in the
// vocabulary.

// The logits after bias, bans, mask, penalties and DRY.
std::vector<double> processed_logits(const Input& in, const Params& p);
// What the draw is from, by ascending id; one candidate where the pick is certain. *margin as in Picked, may be null.
std::vector<Candidate> candidates(const Input& in, const Params& p, double* margin);
Picked pick(const Input& in, const Params& p);
// Without history or mask.
Picked pick(std::span<const float> logits, const Params& p, int32_t position);
Logprobs logprobs(std::span<const float> logits, int32_t id, int32_t alternatives);

}  // namespace bora::sample
