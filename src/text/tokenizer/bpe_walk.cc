// Byte-pair encoding of a piece from left to right.
//
// Tokens t1 ... tn are the encoding of their text exactly when each neighbouring pair is the encoding of its own
// joint text: the first merge that crossed the border between two of them would also be made when the two are encoded
// alone, because until then nothing has come in from outside. So the encoding is found by walking: at each place the
// longest token that agrees with the token before it; where none does, one step back. The encoding of a prefix is
// unique, so a place that failed once fails always and is marked dead. Each place is left at most once, whatever the
// text.
#include <algorithm>
#include <cstring>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/bpe_detail.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

constexpr size_t kMemo = 4096;
constexpr size_t kBytesPerMiss = 16;  // a pair judged by merging must serve that many bytes on average
constexpr size_t kSmallWalk = 64;     // bytes up to which working memory lies on the stack

uint32_t two_bytes(const char* p) {
  return static_cast<uint32_t>(static_cast<uint8_t>(p[0])) << 8 | static_cast<uint8_t>(p[1]);
}
uint32_t three_bytes_hash(uint64_t word) { return (static_cast<uint32_t>(word) & 0xFFFFFFu) * 0x9E3779B1u >> 16; }

uint64_t first_word(const char* p, size_t n) {
  uint64_t word = 0;
  std::memcpy(&word, p, std::min<size_t>(n, 8));
  return word;
}

}  // namespace

void BpeModel::build_walk_tables() {
  lengths_.assign(65536, 0);
  two_bytes_.assign(65536 / 64, 0);
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    std::string_view text = vocab_.text(id);
    if (text.size() < 2 || made_[id].made == kNeverSelf) continue;
    if (text.size() == 2) {
      uint32_t at = two_bytes(text.data());
      two_bytes_[at >> 6] |= uint64_t{1} << (at & 63);
      continue;
    }
    uint16_t& lengths = lengths_[three_bytes_hash(first_word(text.data(), text.size()))];
    if (text.size() <= kShortBytes) {
      lengths |= static_cast<uint16_t>(1u << text.size());
    } else {
      lengths |= 1;
      long_tokens_[hash_bytes(text.substr(0, kShortBytes + 1))].push_back(id);
    }
  }
  for (auto& [hash, ids] : long_tokens_) {
    std::sort(ids.begin(), ids.end(),
              [&](TokenId a, TokenId b) { return vocab_.text(a).size() > vocab_.text(b).size(); });
  }
}

const BpeModel::ShortSlot* BpeModel::find_short(const PieceKey& key) const {
  for (uint64_t i = key_hash(key) & short_mask_; short_[i].id >= 0; i = (i + 1) & short_mask_) {
    if (short_[i].key == key) return &short_[i];
  }
  return nullptr;
}

// Encodes by merging alone.
void BpeModel::merge_plain(std::string_view text, ModelScratch* scratch, std::vector<TokenId>* ids) const {
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

// `slot`: of a short token, else null.
bool BpeModel::is_self(TokenId id, const ShortSlot* slot, ModelScratch* scratch) const {
  uint32_t made = made_[id].made;
  if (made != kMadeUnknown) return made < kMadeUnknown;
  if (!slot) return compatible_merged(id, -1, scratch);
  uint32_t state = slot->state.load(std::memory_order_relaxed);
  if (state != kUnknown) return state == kSelf;
  std::vector<TokenId> ids;
  merge_plain(vocab_.text(id), scratch, &ids);
  bool self = ids.size() == 1 && ids[0] == id;
  slot->state.store(self ? kSelf : kNotSelf, std::memory_order_relaxed);
  return self;
}

bool BpeModel::compatible(TokenId left, TokenId right, ModelScratch* scratch) const {
  // The filter first: of tokens that can be neighbours at all, most are no pair.
  if (maybe_pair(left, right) && pair_rank(left, right) != kNoRank) return false;
  if (made_[left].made >= kMadeUnknown || made_[right].made >= kMadeUnknown) {
    return compatible_merged(left, right, scratch);
  }
  return compatible_inside(left, right);
}

// By merging. With right -1: is {left} the encoding of its own text?
bool BpeModel::compatible_merged(TokenId left, TokenId right, ModelScratch* scratch) const {
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

BpeModel::Step BpeModel::long_candidate(std::string_view text, size_t below, ModelScratch* scratch) const {
  auto it = long_tokens_.find(hash_bytes(text.substr(0, kShortBytes + 1)));
  if (it == long_tokens_.end()) return {-1, 0};
  size_t longest = std::min(below - 1, text.size());
  auto first = std::partition_point(it->second.begin(), it->second.end(),
                                    [&](TokenId id) { return vocab_.text(id).size() > longest; });
  for (; first != it->second.end(); ++first) {
    std::string_view token = vocab_.text(*first);
    if (text.substr(0, token.size()) == token && is_self(*first, nullptr, scratch)) {
      return {*first, static_cast<uint32_t>(token.size())};
    }
  }
  return {-1, 0};
}

BpeModel::Step BpeModel::candidate(const char* p, size_t left, size_t below, const char* readable_end,
                                   ModelScratch* scratch) const {
  uint64_t words[2] = {0, 0};
  if (readable_end - p >= 16) {
    std::memcpy(words, p, 16);
  } else {
    std::memcpy(words, p, std::min<size_t>(left, 15));
  }
  size_t longest = std::min(left, below - 1);
  auto find = [&](size_t n) -> TokenId {
    PieceKey key{words[0] & low_mask(n), (n > 8 ? words[1] & low_mask(n - 8) : 0) | static_cast<uint64_t>(n) << 56};
    const ShortSlot* slot = find_short(key);
    return slot && is_self(slot->id, slot, scratch) ? slot->id : -1;
  };
  if (longest >= 3) {
    uint32_t lengths = lengths_[three_bytes_hash(words[0])];
    if (longest > kShortBytes && (lengths & 1)) {
      Step step = long_candidate({p, left}, below, scratch);
      if (step.id >= 0) return step;
    }
    lengths &= (2u << std::min(longest, kShortBytes)) - 8;
    while (lengths != 0) {
      auto n = static_cast<uint32_t>(31 - __builtin_clz(lengths));
      lengths ^= 1u << n;
      if (TokenId id = find(n); id >= 0) return {id, n};
    }
  }
  if (longest >= 2) {
    uint32_t at = two_bytes(p);
    if (two_bytes_[at >> 6] >> (at & 63) & 1) {
      if (TokenId id = find(2); id >= 0) return {id, 2};
    }
  }
  if (longest >= 1) {
    TokenId id = config_.raw_bytes ? byte_ids_[words[0] & 0xFF] : find(1);
    if (id >= 0) return {id, 1};
  }
  return {-1, 0};
}

bool BpeModel::walk_steps(std::string_view text, const char* readable_end, uint64_t* dead, Step* path,
                          ModelScratch* scratch, std::vector<TokenId>* ids) const {
  scratch->pair_misses = 0;
  size_t count = 0;
  size_t pos = 0;
  size_t below = SIZE_MAX;  // candidates at `pos` must be shorter
  while (pos < text.size()) {
    if (scratch->pair_misses * kBytesPerMiss > pos + 2048) return false;
    Step step = candidate(text.data() + pos, text.size() - pos, below, readable_end, scratch);
    if (step.id < 0) {
      dead[pos >> 6] |= uint64_t{1} << (pos & 63);
      if (count == 0) return false;  // no encoding starts here: cannot happen, as every character is a token
      below = path[--count].length;
      pos -= below;
      continue;
    }
    size_t next = pos + step.length;
    if (!(dead[next >> 6] >> (next & 63) & 1) && (count == 0 || compatible(path[count - 1].id, step.id, scratch))) {
      path[count++] = step;
      pos = next;
      below = SIZE_MAX;
    } else {
      below = step.length;
    }
  }
  size_t old = ids->size();
  ids->resize(old + count);
  for (size_t i = 0; i < count; ++i) (*ids)[old + i] = path[i].id;
  return true;
}

bool BpeModel::walk(std::string_view text, const char* readable_end, ModelScratch* scratch,
                    std::vector<TokenId>* ids) const {
  if (text.size() <= kSmallWalk) {
    uint64_t dead[kSmallWalk / 64 + 1] = {};
    Step path[kSmallWalk];
    return walk_steps(text, readable_end, dead, path, scratch, ids);
  }
  scratch->dead.assign(text.size() / 64 + 1, 0);
  static_assert(sizeof(Step) == sizeof(uint64_t));
  std::vector<Step> path(text.size());
  return walk_steps(text, readable_end, scratch->dead.data(), path.data(), scratch, ids);
}

}  // namespace bora::text
