#include "text/tokenizer/split_behavior.h"

#include <algorithm>

namespace bora::text {
namespace {

void merge_next(const std::vector<Span>& spans, std::vector<PreText::Piece>* pieces) {
  size_t first = pieces->size();
  bool previous_match = false;
  for (size_t i = spans.size(); i-- > 0;) {
    const Span& s = spans[i];
    if (s.match && !previous_match && pieces->size() > first) {
      pieces->back().begin = s.begin;
    } else {
      pieces->push_back({s.begin, s.end});
    }
    previous_match = s.match;
  }
  std::reverse(pieces->begin() + static_cast<ptrdiff_t>(first), pieces->end());
}

}  // namespace

void apply_behavior(const std::vector<Span>& spans, SplitBehavior behavior, std::vector<PreText::Piece>* pieces) {
  size_t first = pieces->size();
  bool previous_match = false;
  if (behavior == SplitBehavior::kMergedWithNext) {
    merge_next(spans, pieces);
  } else {
    for (const Span& s : spans) {
      bool extend = false;
      if (behavior == SplitBehavior::kMergedWithPrevious) extend = s.match && !previous_match;
      if (behavior == SplitBehavior::kContiguous) extend = s.match == previous_match;
      previous_match = s.match;
      if (behavior == SplitBehavior::kRemoved && s.match) continue;
      if (extend && pieces->size() > first) {
        pieces->back().end = s.end;
      } else {
        pieces->push_back({s.begin, s.end});
      }
    }
  }
  auto begin = pieces->begin() + static_cast<ptrdiff_t>(first);
  pieces->erase(std::remove_if(begin, pieces->end(), [](PreText::Piece p) { return p.begin == p.end; }),
                pieces->end());
}

void SplitPreTokenizer::apply(PreText* t) const {
  std::vector<PreText::Piece> result;
  std::vector<Span> spans;
  for (PreText::Piece piece : t->pieces) {
    spans.clear();
    find(*t, piece, &spans);
    if (invert_) {
      for (Span& s : spans) s.match = !s.match;
    }
    apply_behavior(spans, behavior_, &result);
  }
  t->pieces = std::move(result);
}

}  // namespace bora::text
