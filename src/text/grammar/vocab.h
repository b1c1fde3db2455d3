// A tokenizer's tokens prepared for masks: a byte trie, and for the two contexts that dominate JSON (inside a string,
// white space) the tokens that stay inside, precomputed once, with a trie of what remains of those that leave.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/string_states.h"

namespace bora::text {

// Preorder; the subtree of node i is [i + 1, end). Tokens of node i are tokens[first_token, next node's first_token).
struct TrieNode {
  uint32_t end;
  uint32_t first_token;
  uint16_t depth;  // of children of the root: 1
  uint8_t byte;
};

struct TrieToken {
  int32_t id;
  uint32_t chars;  // characters of the string read before the part that is in this trie
};

class TokenTrie {
 public:
  struct Entry {
    std::string_view bytes;
    TrieToken token;
  };
  void build(std::vector<Entry> entries);
  // A last node closes the token list.
  const std::vector<TrieNode>& nodes() const { return nodes_; }
  size_t count() const { return nodes_.size() - 1; }
  const TrieToken* tokens(size_t node) const { return tokens_.data() + nodes_[node].first_token; }
  size_t token_count(size_t node) const { return nodes_[node + 1].first_token - nodes_[node].first_token; }

 private:
  std::vector<TrieNode> nodes_;
  std::vector<TrieToken> tokens_;
};

// The tokens of one loop context: `inside` is the mask of those that end inside it, `leaving` the rest of the others.
struct LoopTokens {
  std::vector<uint32_t> inside;
  TokenTrie leaving;
  uint32_t max_chars = 0;  // most characters that a token of `inside` (an unfinished one counts) or `leaving` reads
  std::vector<int32_t> by_chars;      // tokens of `inside`, fewest characters first
  std::vector<uint32_t> chars_start;  // by_chars of n characters start here; size max_chars + 2
};

class GrammarVocab {
 public:
  static constexpr size_t kMaxTokenBytes = 4096;  // longer tokens are never allowed

  std::vector<std::string_view> bytes;
  std::vector<int32_t> end_ids;
  size_t words = 0;
  TokenTrie trie;
  std::array<LoopTokens, kStringStates> string;
  LoopTokens ws;
  std::vector<uint32_t> ws_start;  // tokens that begin with white space

  bool is_end(int32_t id) const;
};

}  // namespace bora::text
