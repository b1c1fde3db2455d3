#include "text/tokenizer/token_texts.h"

#include <algorithm>
#include <cstring>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/pipeline.h"

namespace bora::text {
namespace {

// "<0xE4>" as a byte, or -1.
int byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  int high = digit(text[3]);
  int low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string running_bytes(std::string_view text, const TokenTextRules& rules) {
  if (rules.byte_tokens) {
    int byte = byte_token(text);
    if (byte >= 0) return std::string(1, static_cast<char>(byte));
  }
  std::string out;
  if (!rules.continuing_prefix.empty()) {
    if (text.substr(0, rules.continuing_prefix.size()) == rules.continuing_prefix) {
      text.remove_prefix(rules.continuing_prefix.size());
    } else {
      out.push_back(' ');
    }
  }
  out.append(text);
  if (!rules.space.empty()) replace_all(rules.space, " ", &out);
  if (!rules.word_end.empty()) replace_all(rules.word_end, " ", &out);
  return out;
}

}  // namespace

TokenTexts::TokenTexts(const TokenizerParts& parts) : parts_(parts) {
  const Vocab& vocab = parts.model->vocab();
  int32_t size = vocab.size();
  for (const AddedToken& a : parts.added) size = std::max(size, a.id + 1);
  for (const auto& [id, text] : parts.extra_texts) size = std::max(size, id + 1);
  entries_.resize(size);
  decoded_.resize(size);
  present_.resize(size);
  special_.resize(size);
  blob_.reserve(static_cast<size_t>(size) * 16);
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (vocab.has(id)) add_model_token(id, vocab.text(id));
  }
  for (const auto& [id, text] : parts.extra_texts) {
    set_text(id, text);
    by_text_[text] = id;
  }
  for (const AddedToken& a : parts.added) {
    // A token that is looked for in normalized text also decodes to its normalized content.
    std::string normalized;
    bool changed = a.normalized && parts.normalizer && parts.normalizer->apply(a.content, &normalized);
    set_text(a.id, changed ? normalized : a.content);
    special_[a.id] = a.special;
    if (a.special) entries_[a.id].bytes = {};
    by_text_[a.content] = a.id;
  }
  blob_.insert(blob_.end(), kPadding, '\0');
  blob_.shrink_to_fit();
}

TokenTexts::Range TokenTexts::store(std::string_view text) {
  Range r{static_cast<uint32_t>(blob_.size()), static_cast<uint32_t>(text.size())};
  blob_.insert(blob_.end(), text.begin(), text.end());
  return r;
}

void TokenTexts::add_model_token(TokenId id, std::string_view stored) {
  Entry& e = entries_[id];
  present_[id] = true;
  if (parts_.model->raw_bytes()) {
    e.bytes = decoded_[id] = store(stored);
    uint32_t begin = static_cast<uint32_t>(blob_.size());
    alphabet_.clear();
    append_alphabet(stored, &alphabet_);
    store(alphabet_);
    e.text = {begin, static_cast<uint32_t>(blob_.size() - begin)};
    if (e.text.length == e.bytes.length) {  // only printable ASCII: one copy does
      blob_.resize(begin);
      e.text = e.bytes;
    }
    return;
  }
  e.text = e.bytes = decoded_[id] = store(stored);
  if (std::string bytes = running_bytes(stored, parts_.text_rules); bytes != stored) e.bytes = store(bytes);
  std::string raw;
  if (parts_.decoder.byte_level() && append_from_alphabet(stored, &raw) && raw != stored)
    decoded_[id] = e.bytes = store(raw);
}

// A token that is outside the model's own texts.
void TokenTexts::set_text(TokenId id, std::string_view text) {
  Entry& e = entries_[id];
  present_[id] = true;
  e.text = e.bytes = decoded_[id] = store(text);
  std::string raw;
  if (append_from_alphabet(text, &raw) && raw != text) decoded_[id] = store(raw);
}

void TokenTexts::append_decoded(std::span<const TokenId> ids, bool skip_special, std::string* out) const {
  size_t total = out->size();
  for (TokenId id : ids) total += in(id) ? decoded_[id].length : 0;
  size_t at = out->size();
  out->resize(total + kPadding);
  char* to = out->data();
  for (TokenId id : ids) {
    if (!in(id) || (skip_special && special_[id])) continue;
    Range r = decoded_[id];
    if (r.length <= kPadding) {
      std::memcpy(to + at, blob_.data() + r.begin, kPadding);
    } else {
      std::memcpy(to + at, blob_.data() + r.begin, r.length);
    }
    at += r.length;
  }
  out->resize(at);
}

std::optional<TokenId> TokenTexts::find(std::string_view text) const {
  if (auto it = by_text_.find(std::string(text)); it != by_text_.end()) return it->second;
  const Vocab& vocab = parts_.model->vocab();
  TokenId id = -1;
  if (parts_.model->raw_bytes()) {
    std::string raw;
    if (append_from_alphabet(text, &raw)) id = vocab.find(raw);
  } else {
    id = vocab.find(text);
  }
  if (id < 0) return std::nullopt;
  return id;
}

}  // namespace bora::text
