// How matches of a pattern turn into pieces: shared by the splitting pre-tokenizers.
#pragma once

#include <vector>

#include "text/tokenizer/pretokenizer.h"

namespace bora::text {

struct Span {
  uint32_t begin;
  uint32_t end;
  bool match;
};

// `spans` cover one piece in order, matches and what lies between. Appends the resulting pieces, empty ones left out.
void apply_behavior(const std::vector<Span>& spans, SplitBehavior behavior, std::vector<PreText::Piece>* pieces);

// A pre-tokenizer that splits by a pattern. find() writes the spans of one piece; offsets are those of the whole
// text.
class SplitPreTokenizer : public PreTokenizer {
 public:
  SplitPreTokenizer(SplitBehavior behavior, bool invert) : behavior_(behavior), invert_(invert) {}
  void apply(PreText* t) const override;

 protected:
  virtual void find(const PreText& t, PreText::Piece piece, std::vector<Span>* spans) const = 0;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace bora::text
