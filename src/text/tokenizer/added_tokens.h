// Added tokens: texts that are found in the input before anything else and become one id each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace bora::text {

struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // found in the normalized text, by its normalized content
  bool special = false;      // a control token
};

// A part of a text: a token, or (id -1) text that is none.
struct AddedSplit {
  TokenId id;
  size_t begin;
  size_t end;
};

// Says whether a special token may be recognised at [begin, end).
class SpecialFilter {
 public:
  virtual ~SpecialFilter() = default;
  virtual bool allows(size_t begin, size_t end) const = 0;
};

// Finds a set of added tokens, leftmost and longest first. Immutable after construction.
class AddedMatcher {
 public:
  // `texts[i]` is what is looked for in place of tokens[i].content. Empty texts are left out.
  AddedMatcher(const std::vector<const AddedToken*>& tokens, const std::vector<std::string>& texts);
  bool empty() const { return nodes_.size() <= 1; }
  // Appends the parts of `text` in order; together they cover it (but for overlaps of stripped spaces). `filter` null
  // = all special tokens are recognised.
  void split(std::string_view text, const SpecialFilter* filter, std::vector<AddedSplit>* parts) const;

 private:
  // Index of the longest token at `pos`, or -1.
  int longest_at(std::string_view text, size_t pos, size_t* end) const;
  struct Node {
    int token = -1;
  };
  std::vector<const AddedToken*> tokens_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> edges_;  // node << 8 | byte
  bool starts_[256] = {};
};

}  // namespace bora::text
