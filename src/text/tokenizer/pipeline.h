// The tokenizer itself: added tokens, normalizer, pre-tokenizer, model, post-processor and decoder put together.
//
// Loaders fill TokenizerParts; make_tokenizer() checks and freezes them. Encoding takes working memory from a small
// pool, so that threads do not wait for each other and short texts do not pay for large buffers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pretokenizer.h"

namespace bora::text {

// How a token's text turns into the bytes it stands for, outside byte-level vocabularies.
struct TokenTextRules {
  std::string space;              // "▁": stands for a space; empty = nothing does
  bool byte_tokens = false;       // "<0x0A>" is a byte
  std::string continuing_prefix;  // "##": without it a token begins a word
  std::string word_end;           // "</w>": stands for a space
};

struct TokenizerParts {
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  ByteLevelTail tail;
  std::unique_ptr<Model> model;
  std::unique_ptr<PostProcessor> post_processor;
  Decoder decoder;
  std::vector<AddedToken> added;
  // Texts of tokens that a byte-level model does not hold as bytes.
  std::vector<std::pair<TokenId, std::string>> extra_texts;
  SpecialIds special;
  TokenTextRules text_rules;
};

Result<std::unique_ptr<Tokenizer>> make_tokenizer(TokenizerParts parts);

}  // namespace bora::text
