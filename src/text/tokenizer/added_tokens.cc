#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

bool word_before(std::string_view text, size_t pos) {
  if (pos == 0) return false;
  size_t at = utf8_prev(text, pos);
  return is_word_char(utf8_next(text.data(), &at));
}

bool word_after(std::string_view text, size_t pos) {
  return pos < text.size() && is_word_char(utf8_next(text.data(), &pos));
}

}  // namespace

AddedMatcher::AddedMatcher(const std::vector<const AddedToken*>& tokens, const std::vector<std::string>& texts)
    : tokens_(tokens) {
  nodes_.emplace_back();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (texts[i].empty()) continue;
    uint32_t node = 0;
    for (char c : texts[i]) {
      auto [it, added] =
          edges_.try_emplace(uint64_t{node} << 8 | static_cast<uint8_t>(c), static_cast<uint32_t>(nodes_.size()));
      if (added) nodes_.emplace_back();
      node = it->second;
    }
    if (nodes_[node].token < 0) nodes_[node].token = static_cast<int>(i);
    starts_[static_cast<uint8_t>(texts[i][0])] = true;
  }
}

int AddedMatcher::longest_at(std::string_view text, size_t pos, size_t* end) const {
  int best = -1;
  uint32_t node = 0;
  while (pos < text.size()) {
    auto it = edges_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[pos]));
    if (it == edges_.end()) break;
    node = it->second;
    ++pos;
    if (nodes_[node].token >= 0) {
      best = nodes_[node].token;
      *end = pos;
    }
  }
  return best;
}

void AddedMatcher::split(std::string_view text, const SpecialFilter* filter, std::vector<AddedSplit>* parts) const {
  size_t done = 0;
  size_t pos = 0;
  while (pos < text.size()) {
    if (!starts_[static_cast<uint8_t>(text[pos])]) {
      ++pos;
      continue;
    }
    size_t stop = pos;
    int index = longest_at(text, pos, &stop);
    if (index < 0) {
      ++pos;
      continue;
    }
    size_t start = pos;
    pos = stop;  // a match that is passed over still takes its text
    const AddedToken& token = *tokens_[index];
    if (filter && token.special && !filter->allows(start, stop)) continue;
    if (token.single_word && (word_before(text, start) || word_after(text, stop))) continue;
    if (token.lstrip) {
      size_t s = start;
      while (s > 0) {
        size_t at = utf8_prev(text, s);
        size_t next = at;
        if (!is_white_space(utf8_next(text.data(), &next))) break;
        s = at;
      }
      start = std::max(s, done);
    }
    if (token.rstrip) {
      while (stop < text.size()) {
        size_t next = stop;
        if (!is_white_space(utf8_next(text.data(), &next))) break;
        stop = next;
      }
    }
    if (done < start) parts->push_back({-1, done, start});
    parts->push_back({token.id, start, stop});
    done = stop;
  }
  if (done < text.size()) parts->push_back({-1, done, text.size()});
}

}  // namespace bora::text
