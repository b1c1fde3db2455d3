// A tokenizer's tokens prepared for masks: a byte trie, and for the two contexts that dominate JSON (inside a string,
// white space) the tokens that stay inside, precomputed once, with a trie of what remains of those that leave.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/string_states.h"

namespace bora::text {

// Preorder; the subtree of node i is [i + 1, end). Tokens of node i are tokens[first_token, next node's first_token),
// so the tokens of a whole subtree are one stretch.
struct TrieNode {
  uint32_t end;
  uint32_t first_token;
  uint32_t below;  // index of the list of bytes that occur in the subtree, or kNoBytes (small subtrees)
  uint16_t depth;  // of children of the root: 1
  uint8_t byte;
  bool in_string;  // from the home state of a JSON string on, everything below stays inside
};

struct TrieToken {
  int32_t id;
  uint32_t chars;  // characters of the string read before the part that is in this trie
};

class TokenTrie {
 public:
  static constexpr uint32_t kNoBytes = UINT32_MAX;
  static constexpr uint32_t kWideNodes = 16;  // subtrees of at least so many nodes know their bytes

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
  // The tokens below a node, its own left out.
  size_t tokens_below(size_t node) const { return nodes_[nodes_[node].end].first_token - nodes_[node + 1].first_token; }
  // Every byte below a node with `below`, the rarest kinds first (above ASCII, then controls and punctuation).
  std::span<const uint8_t> bytes_below(const TrieNode& node) const {
    return {byte_lists_.data() + list_starts_[node.below], list_starts_[node.below + 1] - list_starts_[node.below]};
  }

 private:
  void list_bytes();
  void mark_in_string();

  std::vector<TrieNode> nodes_;
  std::vector<TrieToken> tokens_;
  std::vector<uint8_t> byte_lists_;
  std::vector<uint32_t> list_starts_;
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
