// The "merges" of a tokenizer.json.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/tokenizer/bpe.h"

namespace bora::text {

// `json`: the text of the array, valid UTF-8; its elements are "left right" or ["left", "right"]. With `raw` the sides
// are written in the byte-level alphabet. `prefix`: bytes of the prefix of continuing subwords. Anything else is an
// error that shows the element.
Status add_merges(std::string_view json, bool raw, size_t prefix, BpeModel* model);

}  // namespace bora::text
