// Byte-pair encoding of long stretches from left to right.
//
// Tokens t1 ... tn are the encoding of their text exactly when each neighbouring pair is the encoding of its own
// joint text: the first merge that crossed the border between two of them would also be made when the two are encoded
// alone, because until then nothing has come in from outside. So the encoding is found by walking: at each place the
// longest token that agrees with the token before it; where none does, one step back. The encoding of a prefix is
// unique, so a place that failed once fails always and is marked dead. Each place is left at most once, whatever the
// text.
#include <algorithm>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/bpe_detail.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

constexpr size_t kMemo = 4096;
constexpr size_t kLongestMemo = 1024;
constexpr size_t kBytesPerMiss = 16;  // a fresh answer about a pair must serve that many bytes on average

size_t two_bytes(std::string_view text) {
  return static_cast<size_t>(static_cast<uint8_t>(text[0])) << 8 | static_cast<uint8_t>(text[1]);
}

}  // namespace

void BpeModel::build_long_table() {
  if (affixes_) return;
  longest_.assign(65536, 1);
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    std::string_view text = vocab_.text(id);
    if (text.size() < 2 || vocab_.find(text) != id) continue;
    if (text.size() > kShortBytes) {
      long_tokens_[hash_bytes(text.substr(0, kShortBytes + 1))].push_back(id);
    } else {
      uint8_t& longest = longest_[two_bytes(text)];
      longest = std::max(longest, static_cast<uint8_t>(text.size()));
    }
  }
  for (auto& [hash, ids] : long_tokens_) {
    std::sort(ids.begin(), ids.end(),
              [&](TokenId a, TokenId b) { return vocab_.text(a).size() > vocab_.text(b).size(); });
  }
}

const BpeModel::ShortSlot* BpeModel::find_short(std::string_view text) const {
  PieceKey key = make_key(text.data(), text.size(), text.data() + text.size());
  for (uint64_t i = key_hash(key) & short_mask_; short_[i].id >= 0; i = (i + 1) & short_mask_) {
    if (short_[i].key == key) return &short_[i];
  }
  return nullptr;
}

// Encodes a text of one or two tokens.
void BpeModel::merge_plain(std::string_view text, ModelScratch* scratch, std::vector<TokenId>* ids) const {
  if (config_.raw_bytes && text.size() <= kShortMerge) {
    TokenId symbols[kShortMerge];
    for (size_t i = 0; i < text.size(); ++i) {
      symbols[i] = byte_ids_[static_cast<uint8_t>(text[i])];
      if (symbols[i] < 0) return;  // can never be reached
    }
    return merge_short(symbols, text.size(), ids);
  }
  std::vector<TokenId> symbols;
  for (size_t pos = 0; pos < text.size();) {
    if (config_.raw_bytes) {
      symbols.push_back(byte_ids_[static_cast<uint8_t>(text[pos++])]);
      continue;
    }
    size_t begin = pos;
    uint32_t cp = utf8_next(text.data(), &pos);
    symbols.push_back(cp < 0x10000 ? chars_[cp] : vocab_.find(text.substr(begin, pos - begin)));
  }
  // A token may hold a character that has no token: it can never be reached.
  if (std::find(symbols.begin(), symbols.end(), -1) != symbols.end()) return;
  merge(symbols.data(), symbols.size(), scratch, ids);
}

bool BpeModel::is_self(TokenId id, ModelScratch* scratch) const {
  std::string_view text = vocab_.text(id);
  const ShortSlot* slot = text.size() <= kShortBytes ? find_short(text) : nullptr;
  uint32_t state = slot ? slot->state.load(std::memory_order_relaxed) : uint32_t{kUnknown};
  if (state != kUnknown) return state == kSelf;
  if (!slot) return compatible(id, -1, scratch);
  std::vector<TokenId> ids;
  merge_plain(text, scratch, &ids);
  bool self = ids.size() == 1 && ids[0] == id;
  slot->state.store(self ? kSelf : kNotSelf, std::memory_order_relaxed);
  return self;
}

// Is {left, right} the encoding of their joint text? With right -1: is {left} that of its own?
bool BpeModel::compatible(TokenId left, TokenId right, ModelScratch* scratch) const {
  if (scratch->pair_memo.empty()) scratch->pair_memo.assign(kMemo, 0);
  uint64_t key = (static_cast<uint64_t>(left) + 1) << 22 | static_cast<uint32_t>(right + 1);
  uint64_t& memo = scratch->pair_memo[(key * 0x9E3779B97F4A7C15u) >> 52];
  if (memo >> 1 == key) return memo & 1;
  ++scratch->pair_misses;
  std::string joint(vocab_.text(left));
  if (right >= 0) joint += vocab_.text(right);
  std::vector<TokenId> ids;
  merge_plain(joint, scratch, &ids);
  bool ok = right < 0 ? ids.size() == 1 && ids[0] == left : ids.size() == 2 && ids[0] == left && ids[1] == right;
  memo = key << 1 | static_cast<uint64_t>(ok);
  return ok;
}

TokenId BpeModel::longest_self(std::string_view text, size_t below, ModelScratch* scratch) const {
  bool local = false;
  if (text.size() < 16) return longest_now(text, below, scratch, &local);
  if (scratch->longest_memo.empty()) scratch->longest_memo.resize(kLongestMemo);
  uint64_t words[2];
  std::memcpy(words, text.data(), 16);
  uint64_t hash = (words[0] * 0x9E3779B97F4A7C15u) ^ (words[1] * 0xD6E8FEB86659FD93u) ^ (below * 0xA24BAED4963EE407u);
  ModelScratch::Longest& memo = scratch->longest_memo[(hash * 0x9E3779B97F4A7C15u) >> 54];
  if (memo.below == below && memo.words[0] == words[0] && memo.words[1] == words[1]) return memo.id;
  TokenId id = longest_now(text, below, scratch, &local);
  if (local) memo = {{words[0], words[1]}, below, id};
  return id;
}

// *local: the answer depends on the next 16 bytes only.
TokenId BpeModel::longest_now(std::string_view text, size_t below, ModelScratch* scratch, bool* local) const {
  *local = true;
  if (text.size() > kShortBytes && below > kShortBytes + 1) {
    auto it = long_tokens_.find(hash_bytes(text.substr(0, kShortBytes + 1)));
    if (it != long_tokens_.end()) {
      *local = false;
      for (TokenId id : it->second) {
        std::string_view token = vocab_.text(id);
        if (token.size() < below && text.substr(0, token.size()) == token && is_self(id, scratch)) return id;
      }
    }
  }
  size_t length = text.size() > 1 ? longest_[two_bytes(text)] : 1;
  // A character is the shortest token there is, so lengths go down to that of the first one.
  size_t shortest = config_.raw_bytes ? 1 : utf8_length(static_cast<uint8_t>(text[0]));
  length = std::min({std::max(length, shortest), text.size(), below - 1});
  for (; length >= shortest && length > 0; --length) {
    const ShortSlot* slot = find_short(text.substr(0, length));
    if (slot && is_self(slot->id, scratch)) return slot->id;
  }
  return -1;
}

bool BpeModel::merge_linear(std::string_view text, ModelScratch* scratch, std::vector<TokenId>* ids) const {
  std::vector<bool>& dead = scratch->dead;
  std::vector<TokenId>& path = scratch->path;
  dead.assign(text.size() + 1, false);
  path.clear();
  scratch->pair_misses = 0;
  size_t pos = 0;
  size_t below = SIZE_MAX;  // candidates at `pos` must be shorter
  while (pos < text.size()) {
    if (scratch->pair_misses * kBytesPerMiss > pos + 2048) return false;
    TokenId id = longest_self(text.substr(pos), below, scratch);
    if (id < 0) {
      dead[pos] = true;
      if (path.empty()) return false;  // no encoding starts here: cannot happen, as every character is a token
      below = vocab_.text(path.back()).size();
      pos -= below;
      path.pop_back();
      continue;
    }
    size_t length = vocab_.text(id).size();
    if (!dead[pos + length] && (path.empty() || compatible(path.back(), id, scratch))) {
      path.push_back(id);
      pos += length;
      below = SIZE_MAX;
    } else {
      below = length;
    }
  }
  ids->insert(ids->end(), path.begin(), path.end());
  return true;
}

}  // namespace bora::text
