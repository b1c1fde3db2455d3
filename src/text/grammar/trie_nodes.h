// Sets of literal words as deterministic node tries.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "text/grammar/program.h"

namespace bora::text {

// Exactly one of `words`, then `next`. Errors: a word is not UTF-8.
Result<NodeId> word_trie(std::vector<std::string> words, bool json, NodeId next, ProgramBuilder* out);

// Any JSON string body that is none of `words`, then `next` (the closing quote).
Result<NodeId> other_words(std::vector<std::string> words, NodeId next, ProgramBuilder* out);

}  // namespace bora::text
