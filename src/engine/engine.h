// The border between those who talk to clients and those who compute: flat structs without pointers, callbacks or
// futures, over bounded queues. It includes `base` only and can become a socket later.
//
// A Request goes in; Events come out, in order, until exactly one kFinished a choice. Text in events is valid UTF-8
// and already cut at stop strings. Threads: submit, cancel and poll may be called from any thread; events of one
// request are polled by one reader. A reader that does not poll pauses only its own request. One reader of all
// requests (a server's dispatcher) learns from ready() which of them have events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace bora::engine {

using RequestId = int64_t;

// Neutral values switch a processor off. Ranges are checked by submit(); the message names the field.
struct SamplingParams {
  float temperature = 1;                            // [0, 100]; 0 = greedy
  float dynatemp_range = 0, dynatemp_exponent = 1;  // >= 0, > 0
  int32_t top_k = 0;                                // 0 = all
  float top_p = 1;                                  // (0, 1]
  float min_p = 0;                                  // [0, 1]
  float typical_p = 1;                              // (0, 1]
  float top_n_sigma = 0;                            // <= 0 = off
  float repetition_penalty = 1;                     // (0, 10], over prompt and output
  int32_t repetition_last_n = -1;                   // -1 = all
  float presence_penalty = 0;                       // [-2, 2], over the output
  float frequency_penalty = 0;                      // [-2, 2]
  float xtc_probability = 0, xtc_threshold = 0.1f;  // [0, 1], [0, 0.5]
  float dry_multiplier = 0, dry_base = 1.75f;       // >= 0, >= 1
  int32_t dry_allowed_length = 2;                   // >= 1
  int32_t dry_last_n = -1;                          // -1 = all
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};
  int32_t mirostat = 0;  // 0, 1 or 2
  float mirostat_tau = 5, mirostat_eta = 0.1f;
  bool has_seed = false;  // without one the engine draws it
  uint64_t seed = 0;
  int32_t logprobs = -1;  // alternatives a token, -1 none
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::pair<int32_t, float>> logit_bias;  // token id, added value
  std::vector<int32_t> banned_tokens;
  std::vector<int32_t> allowed_tokens;          // empty = all
  std::vector<std::vector<int32_t>> bad_words;  // token sequences that may not be completed
  std::vector<int32_t> stop_tokens;             // besides the model's own
  std::vector<std::string> stop;                // strings, matched in text
  bool include_stop = false;                    // keep the stop string in the text
};

struct Request {
  std::string model;            // empty = the only one
  std::string external_id;      // for logs and errors
  std::vector<int32_t> prompt;  // token ids, not empty
  int32_t max_tokens = 16;      // a choice; 0 = the prompt only (cache warm-up, scoring)
  int32_t choices = 1;          // n
  SamplingParams sampling;
  int32_t priority = 0;
  int64_t deadline_us = -1;      // from submission; -1 none
  std::string tenant;            // salt of the prefix cache
  int32_t prompt_logprobs = -1;  // alternatives a prompt token, -1 none
  bool use_cache = true;         // false: the prefix index is not consulted
  bool text = true;              // false: ids only, no text in events
};

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;
  std::string bytes;  // what the token stands for
};

enum class Finish : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

struct Usage {
  int32_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;  // completion: of this choice
};

struct Event {
  enum class Kind : uint8_t { kStarted, kPrompt, kToken, kFinished };
  Kind kind = Kind::kToken;
  RequestId request = 0;
  int32_t choice = 0;
  // kPrompt, when prompt_logprobs were asked for: one a prompt token, in order, with `token`, `logprob` and `top` (the
  // first has none). kToken: what became certain with this token; `text` may be empty while characters or a possible
  // stop are held back. kFinished: `text` is what was held back when no token ended the answer (cancel, deadline).
  int32_t token = -1;
  std::string text;
  TokenLogprob logprob;  // of `token`, when asked for
  std::vector<TokenLogprob> top;
  bool special = false;  // `token` is a control token of the vocabulary
  // kStarted (once a request, before any other): cached_tokens and why no more; kFinished: all.
  Usage usage;
  std::string note;  // kStarted: why the match is not longer; kFinished with kError: the message
  Finish finish = Finish::kStop;
  std::string stop_reason;  // the stop string, or the stop token's id as text; empty otherwise
};

struct ModelState {
  std::string name;
  std::string state;   // "absent", "loading", "ready", "sleeping", "waking", "failed"
  std::string detail;  // why it failed
  int32_t max_context = 0, vocab = 0;
};

// What a process does now, for metrics and Retry-After.
struct Stats {
  int32_t running = 0, waiting = 0, queue_limit = 0;
  double finished_per_second = 0;  // requests, over the last seconds
  int64_t steps = 0;
  int64_t last_step_us = -1;  // on the engine's clock; -1 none yet. Readiness needs a recent one while work is there
  double kv_used = 0;         // share of blocks owned by live requests
  bool draining = false, dead = false;
};

// What a process offers to those who serve.
class Frontend {
 public:
  virtual ~Frontend() = default;
  // kResourceExhausted: queue full; kUnavailable: loading, draining or dead; kInvalidArgument: names the field;
  // kNotFound:
  // model.
  virtual Result<RequestId> submit(const Request& request) = 0;
  // Ends it: its events end with kFinished (kCancelled), and its blocks are free once the steps in flight have ended.
  virtual void cancel(RequestId id) = 0;
  // Moves up to `limit` waiting events of one request into *out; waits up to `timeout_us` for the first. False when
  // the request is unknown or its last event was taken before.
  virtual bool poll(RequestId id, int32_t limit, int64_t timeout_us, std::vector<Event>* out) = 0;
  // Moves the ids of requests that got events since the last call into *ids, waiting up to `timeout_us` for the
  // first. One
  // caller; who uses it polls without waiting.
  virtual void ready(int64_t timeout_us, std::vector<RequestId>* ids) = 0;
  virtual std::vector<ModelState> models() const = 0;
  virtual Stats stats() const = 0;
};

}  // namespace bora::engine
