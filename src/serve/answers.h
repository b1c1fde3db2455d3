// What chat and completions share of their answers: envelopes and log-probabilities.
#pragma once

#include <string>

#include "serve/generation.h"

namespace bora::serve {

// The members that every chunk of an answer repeats.
struct Envelope {
  std::string id, object, model, fingerprint;
  int64_t created = 0;
  bool usage = false, running_usage = false;  // stream_options: at the end, in every chunk
  Json with(Json choices) const;
  // A chunk of a stream. With `usage` its member is there in every chunk, null unless it runs along.
  void chunk(Json choices, const Totals* totals, std::string* out) const;
  // What ends a stream that was asked for usage: a chunk without choices.
  void close(const Totals& totals, std::string* out) const;
};

// One choice: {"index", key: value, "logprobs", "finish_reason"}; null Json for what is not there yet.
Json choice_json(int32_t index, std::string_view key, Json value, Json logprobs, Json finish_reason);

// {"token", "logprob", "bytes", "top_logprobs"} of one token, as chat words it.
Json chat_logprob(const engine::Event& event);

// The lists of completions: tokens, token_logprobs, top_logprobs, text_offset.
class LogprobLists {
 public:
  // `text`: the token's; `offset`: where it begins, in characters. `scored`: false for the first of a prompt.
  void add(const engine::Event& event, std::string_view text, int64_t offset, bool scored);
  Json take();
  bool empty() const { return tokens_.size() == 0; }

 private:
  Json tokens_ = Json::array(), values_ = Json::array(), tops_ = Json::array(), offsets_ = Json::array();
};

// An event's text without that of its control token, unless that is a think tag, which the answer's parser needs.
std::string without_special(const engine::Event& event, const text::Tokenizer& tokenizer);

// A log-probability as JSON can hold it: minus infinity becomes -9999.
double finite_logprob(float value);
int64_t characters(std::string_view utf8);

}  // namespace bora::serve
