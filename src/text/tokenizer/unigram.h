// Unigram: the segmentation of highest total score, found by one pass over the text with a trie of the vocabulary.
#pragma once

#include <vector>

#include "base/status.h"
#include "text/tokenizer/model.h"

namespace bora::text {

struct UnigramConfig {
  TokenId unk_id = -1;
  bool byte_fallback = false;
  bool fuse_unk = true;
};

class UnigramModel final : public Model {
 public:
  // `matched[id]`: the token takes part in segmentation. Scores by id.
  UnigramModel(Vocab vocab, std::vector<double> scores, const std::vector<bool>& matched, UnigramConfig config);
  void encode(std::string_view piece, const char* readable_end, ModelScratch* scratch,
              std::vector<TokenId>* ids) const override;
  const Vocab& vocab() const override { return vocab_; }

 private:
  void emit(std::string_view text, std::vector<TokenId>* ids) const;
  // Child of a trie node, or 0.
  uint32_t child(uint32_t node, uint8_t label) const;

  Vocab vocab_;
  std::vector<double> scores_;
  UnigramConfig config_;
  double unk_score_ = 0;
  TokenId byte_ids_[256];
  // Trie: edges of a node are a sorted run of edges_; node 0 is the root.
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edge_count = 0;
    TokenId id = -1;
  };
  std::vector<Node> nodes_;
  std::vector<uint8_t> labels_;
  std::vector<uint32_t> targets_;
};

}  // namespace bora::text
