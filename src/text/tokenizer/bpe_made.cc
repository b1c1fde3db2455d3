// Which tokens are their own encoding, and through which last merge.
//
// Where ranks grow along a token's making (each side arises before the merge that joins it), merging is the same as
// going through the ranks from low to high. So the merge {left, right} of rank r is the last one in the encoding of
// its joint text exactly when both sides are their own encodings, arise before r, and nothing crosses the border
// between them before r. That only asks about the last symbol of the left side and the first of the right side at
// each moment, and these are found by going down the two sides' own last merges, latest first.
//
// Of two merges of equal rank the leftmost comes first. A merge inside the left side stands left of the border, so
// only a crossing pair of lower rank comes before it; one inside the right side stands right of it, so one of equal
// rank comes before it too.
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/bpe_detail.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {

bool BpeModel::compatible_inside(TokenId left, TokenId right) const {
  Made a = made_[left];
  Made b = made_[right];
  for (;;) {
    uint32_t limit;
    if (a.made > b.made) {
      limit = a.made - 1;
      left = a.right;
      a = made_[left];
    } else {
      if (b.made == 0) return true;  // two characters: nothing earlier can cross
      limit = b.made;
      right = b.left;
      b = made_[right];
    }
    if (maybe_pair(left, right) && pair_rank(left, right) < limit) return false;
  }
}

void BpeModel::build_made() {
  made_.assign(vocab_.size(), Made{kNeverSelf, -1, -1});
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    std::string_view text = vocab_.text(id);
    if (text.empty()) continue;
    size_t one = config_.raw_bytes ? 1 : static_cast<size_t>(utf8_length(static_cast<uint8_t>(text[0])));
    if (text.size() == one && vocab_.find(text) == id) made_[id].made = 0;
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i + kAhead < order_.size()) {
      const Merge& next = order_[i + kAhead];
      __builtin_prefetch(&made_[next.left]);
      __builtin_prefetch(&made_[next.right]);
    }
    const Merge& m = order_[i];
    Made& target = made_[merged_[m.rank]];
    if (target.made < kMadeUnknown) continue;
    if (replaced_ && pair_rank(m.left, m.right) != m.rank) continue;
    if (made_[m.left].made > m.rank || made_[m.right].made > m.rank) {
      target.made = kMadeUnknown;
    } else if (compatible_inside(m.left, m.right)) {
      target = {m.rank + 1, m.left, m.right};
    }
  }
  order_ = {};
}

}  // namespace bora::text
