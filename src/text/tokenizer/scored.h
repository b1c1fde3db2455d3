// Vocabularies of SentencePiece kind: tokens with scores and types, as two GGUF kinds and tokenizer.model hold
// them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer/pipeline.h"

namespace bora::text {

enum class PieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct ScoredVocab {
  std::vector<std::string_view> tokens;  // by id
  std::vector<float> scores;
  std::vector<PieceType> types;
};

struct SentencePieceRules {
  bool unigram = false;
  bool byte_fallback = false;
  bool add_dummy_prefix = true;  // a space before the text
  bool remove_extra_whitespaces = false;
  bool escape_whitespaces = true;  // spaces are "▁" in the vocabulary
  std::string charsmap;            // empty = none
  TokenId unk = -1;
  std::vector<TokenId> before;  // what add_special puts around
  std::vector<TokenId> after;
  SpecialIds special;
};

Result<std::unique_ptr<Tokenizer>> make_scored_tokenizer(const ScoredVocab& vocab, SentencePieceRules rules);

}  // namespace bora::text
