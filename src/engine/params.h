// A request's sampling as devices take it: ranges checked, lists sorted, strings turned into ids. Private to the
// module.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "ir/pick.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::engine {

constexpr int32_t kMaxLogprobs = 128;

struct RequestLimits {
  int32_t vocab = 0, max_context = 0, max_choices = 0;
  int32_t score_rows = 0;  // logits rows that a step has for prompt_logprobs beside the decoding ones
  int32_t align = 16;
};

// kInvalidArgument names the field.
Status check_request(const Request& request, const RequestLimits& limits);

// Owns the lists that ir::PickParams views. Does not move once params were made.
class PickStore {
 public:
  PickStore(const Request& request, uint64_t seed, std::vector<int32_t> model_end_ids,
            const text::Tokenizer* tokenizer);
  PickStore(const PickStore&) = delete;
  PickStore& operator=(const PickStore&) = delete;
  ir::PickParams params(int32_t choice) const;
  ir::PickParams scoring(int32_t alternatives) const;  // of prompt tokens
  bool ends(int32_t id) const;                         // a stop token, or the model's own unless ignored
  bool is_stop_token(int32_t id) const;                // one of the request's

 private:
  ir::PickParams base_;
  std::vector<std::pair<int32_t, float>> bias_;
  std::vector<int32_t> banned_, allowed_, end_ids_, stop_tokens_, breakers_, bad_words_, bad_word_ends_;
};

}  // namespace bora::engine
