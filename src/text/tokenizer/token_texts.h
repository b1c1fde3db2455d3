// TokenTexts: everything that is asked about single ids, in flat tables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/big_vector.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::text {

struct TokenizerParts;

class TokenTexts {
 public:
  // Views into `parts` stay valid as long as its model lives.
  explicit TokenTexts(const TokenizerParts& parts);

  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  bool has(TokenId id) const { return in(id) && present_[id]; }
  bool is_special(TokenId id) const { return in(id) && special_[id]; }
  std::string_view text(TokenId id) const { return in(id) ? view(entries_[id].text) : std::string_view(); }
  std::string_view bytes(TokenId id) const { return in(id) ? view(entries_[id].bytes) : std::string_view(); }
  // What byte-level decoding appends for an id.
  std::string_view decode_bytes(TokenId id) const { return in(id) ? view(decoded_[id]) : std::string_view(); }
  // The same for many ids at once.
  void append_decoded(std::span<const TokenId> ids, bool skip_special, std::string* out) const;
  std::optional<TokenId> find(std::string_view text) const;

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t length = 0;
  };
  struct Entry {
    Range text;
    Range bytes;
  };
  bool in(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < entries_.size(); }
  std::string_view view(Range r) const { return {blob_.data() + r.begin, r.length}; }
  static constexpr size_t kPadding = 16;  // short texts are copied as so many bytes
  Range store(std::string_view text);
  void add_model_token(TokenId id, std::string_view stored);
  void set_text(TokenId id, std::string_view text);

  std::string alphabet_;  // while loading
  const TokenizerParts& parts_;
  BigVector<char> blob_;  // its last kPadding bytes belong to no token
  BigVector<Entry> entries_;
  BigVector<Range> decoded_;
  std::vector<bool> present_;
  std::vector<bool> special_;
  std::unordered_map<std::string, TokenId> by_text_;  // added tokens and those the model's own table does not find
};

}  // namespace bora::text
