// WordPiece: the longest token first, from the left; a word that cannot be covered is unknown. WordLevel: whole words
// only.
#pragma once

#include <string>

#include "text/tokenizer/model.h"

namespace bora::text {

class WordPieceModel final : public Model {
 public:
  // Words above `max_chars` characters are unknown.
  WordPieceModel(Vocab vocab, const std::string& unk_token, std::string prefix, size_t max_chars);
  void encode(std::string_view piece, const char* readable_end, ModelScratch* scratch,
              std::vector<TokenId>* ids) const override;
  const Vocab& vocab() const override { return vocab_; }

 private:
  Vocab vocab_;
  TokenId unk_id_;
  std::string prefix_;
  size_t max_chars_;
  size_t longest_ = 0;  // bytes of the longest token
};

class WordLevelModel final : public Model {
 public:
  WordLevelModel(Vocab vocab, const std::string& unk_token)
      : vocab_(std::move(vocab)), unk_id_(vocab_.find(unk_token)) {}
  void encode(std::string_view piece, const char* readable_end, ModelScratch* scratch,
              std::vector<TokenId>* ids) const override;
  const Vocab& vocab() const override { return vocab_; }

 private:
  Vocab vocab_;
  TokenId unk_id_;
};

}  // namespace bora::text
