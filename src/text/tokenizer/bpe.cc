#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <cstring>

#include "text/tokenizer/bpe_detail.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
BpeModel::BpeModel(Vocab vocab, BpeConfig config) : vocab_(std::move(vocab)), config_(std::move(config)) {
  affixes_ = !config_.continuing_subword_prefix.empty() || !config_.end_of_word_suffix.empty();
  if (config_.unk_token) unk_id_ = vocab_.find(*config_.unk_token);
  for (int b = 0; b < 256; ++b) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    const char name[] = {'<', '0', 'x', kHex[b >> 4], kHex[b & 15], '>'};
    const char raw = static_cast<char>(b);
    byte_ids_[b] = config_.raw_bytes ? vocab_.find({&raw, 1}) : vocab_.find({name, 6});
  }
}

void BpeModel::reserve_merges(size_t count) {
  size_t want = 16;
  while (want < count * 2) want *= 2;
  if (want <= pairs_.size()) return;
  HugeVector<uint64_t> old(want, kEmptyPair);
  old.swap(pairs_);
  pair_mask_ = want - 1;
  for (uint64_t word : old) {
    if (word == kEmptyPair) continue;
    uint64_t i = spread_low(word >> kRankBits) & pair_mask_;
    while (pairs_[i] != kEmptyPair) i = (i + 1) & pair_mask_;
    pairs_[i] = word;
  }
  merged_.reserve(count);
  order_.reserve(count);
}

Status BpeModel::add_merge(TokenId left, TokenId right, TokenId merged) {
  if (merged_.size() >= (size_t{1} << kRankBits) - 1) return unimplemented("more than 4 million merges");
  merged_.push_back(merged);
  put_pair(left, right, merged_.size() - 1);
  return ok_status();
}

Status BpeModel::add_equal_merge(TokenId left, TokenId right) {
  put_pair(left, right, merged_.size() - 1);
  return ok_status();
}

void BpeModel::put_pair(TokenId left, TokenId right, uint64_t rank) {
  if ((pair_count_ + 1) * 2 > pairs_.size()) reserve_merges(std::max<size_t>(pair_count_ * 2, 16));
  uint64_t key = pair_key(left, right);
  uint64_t i = spread_low(key) & pair_mask_;
  while (pairs_[i] != kEmptyPair && pairs_[i] >> kRankBits != key) i = (i + 1) & pair_mask_;
  if (pairs_[i] == kEmptyPair) {
    ++pair_count_;
  } else {
    replaced_ = true;
  }
  pairs_[i] = key << kRankBits | rank;
  order_.push_back({left, right, static_cast<uint32_t>(rank)});
}

TokenId BpeModel::merged_id(TokenId left, TokenId right, std::string* scratch) const {
  scratch->assign(vocab_.text(left));
  std::string_view tail = vocab_.text(right);
  if (tail.size() < config_.continuing_subword_prefix.size()) return -1;
  scratch->append(tail.substr(config_.continuing_subword_prefix.size()));
  return vocab_.find(*scratch);
}

void BpeModel::build_pair_filter() {
  size_t bits = 64;
  while (bits < pair_count_ * 8) bits *= 2;
  pair_bits_.assign(bits / 64, 0);
  pair_shift_ = 64 - __builtin_ctzll(bits);
  for (const Merge& m : order_) {
    uint64_t bit = spread(pair_key(m.left, m.right)) >> pair_shift_;
    pair_bits_[bit >> 6] |= uint64_t{1} << (bit & 63);
  }
}

Status BpeModel::finish() {
  if (pairs_.empty()) reserve_merges(8);
  if (config_.raw_bytes) {
    all_bytes_ = std::all_of(byte_ids_, byte_ids_ + 256, [](TokenId id) { return id >= 0; });
  } else {
    build_char_table();
  }
  if (!affixes_) {
    build_pair_filter();
    build_made();
    build_walk_tables();
  }
  order_ = {};
  build_short_table();
  if (!config_.raw_bytes) return build_seams();
  grid_.assign(65536, kNoRank);
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      if (byte_ids_[a] >= 0 && byte_ids_[b] >= 0) grid_[a << 8 | b] = pair_rank(byte_ids_[a], byte_ids_[b]);
    }
  }
  return ok_status();
}

void BpeModel::build_short_table() {
  if (affixes_) return;
  size_t count = 0;
  for (TokenId id = 0; id < vocab_.size(); ++id) count += vocab_.has(id) && vocab_.text(id).size() <= kShortBytes;
  size_t want = 16;
  while (want < count * 2) want *= 2;
  short_ = HugeVector<ShortSlot>(want);
  short_mask_ = want - 1;
  // In batches, so that the table's cache misses overlap.
  struct Entry {
    PieceKey key;
    uint64_t at;
    TokenId id;
  };
  Entry batch[kAhead];
  size_t pending = 0;
  auto flush = [&] {
    for (size_t k = 0; k < pending; ++k) {
      const Entry& e = batch[k];
      uint64_t i = e.at;
      while (short_[i].id >= 0 && !(short_[i].key == e.key)) i = (i + 1) & short_mask_;
      if (short_[i].id >= 0 && vocab_.find(vocab_.text(e.id)) != e.id) continue;
      short_[i].key = e.key;
      short_[i].id = e.id;
      uint32_t made = made_[e.id].made;
      short_[i].state = made == kMadeUnknown ? kUnknown : made == kNeverSelf ? kNotSelf : kSelf;
    }
    pending = 0;
  };
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    std::string_view text = vocab_.text(id);
    if (text.empty() || text.size() > kShortBytes) continue;
    PieceKey key = make_key(text.data(), text.size(), vocab_.readable_end());
    uint64_t at = key_hash(key) & short_mask_;
    __builtin_prefetch(&short_[at], 1);
    batch[pending++] = {key, at, id};
    if (pending == kAhead) flush();
  }
  flush();
}

void BpeModel::build_char_table() {
  chars_.assign(0x10000, -1);
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    std::string_view text = vocab_.text(id);
    if (text.empty() || text.size() > 3 ||
        text.size() != static_cast<size_t>(utf8_length(static_cast<uint8_t>(text[0])))) {
      continue;
    }
    size_t pos = 0;
    uint32_t cp = utf8_next(text.data(), &pos);
    chars_[cp] = vocab_.find(text);
  }
}

Status BpeModel::build_seams() {
  if (affixes_) return ok_status();
  size_t words = 64;
  while (words * 64 < pair_count_ * 4) words *= 2;
  seam_bits_.assign(words, 0);
  // The symbols with which a token can begin or end: its characters, or itself where it can be a first symbol as a
  // whole.
  auto whole = [&](TokenId id) {
    return id == unk_id_ || (vocab_.text(id).size() == 6 && vocab_.text(id).substr(0, 3) == "<0x");
  };
  auto mark = [&](TokenId a, TokenId b) {
    if (a < 0 || b < 0) return;
    uint64_t bit = spread_low(pair_key(a, b)) & (seam_bits_.size() * 64 - 1);
    seam_bits_[bit >> 6] |= uint64_t{1} << (bit & 63);
  };
  for (uint64_t word : pairs_) {
    if (word == kEmptyPair) continue;
    auto left = static_cast<TokenId>(word >> (kRankBits + 21));
    auto right = static_cast<TokenId>(word >> kRankBits & ((1 << 21) - 1));
    std::string_view a = vocab_.text(left);
    std::string_view b = vocab_.text(right);
    if (a.empty() || b.empty()) continue;
    TokenId last = vocab_.find(a.substr(utf8_prev(a, a.size())));
    TokenId first = vocab_.find(b.substr(0, utf8_length(static_cast<uint8_t>(b[0]))));
    mark(last, first);
    if (whole(left)) mark(left, first);
    if (whole(right)) mark(last, right);
    if (whole(left) && whole(right)) mark(left, right);
  }
  seams_ok_ = true;
  return ok_status();
}

bool BpeModel::seam(TokenId left, TokenId right) const {
  uint64_t bit = spread_low(pair_key(left, right)) & (seam_bits_.size() * 64 - 1);
  return seam_bits_[bit >> 6] >> (bit & 63) & 1;
}

size_t BpeModel::memory_bytes() const {
  return vocab_.memory_bytes() + pairs_.capacity() * 8 + merged_.capacity() * 4 + grid_.capacity() * 4 +
         short_.capacity() * sizeof(ShortSlot) + chars_.capacity() * 4 + seam_bits_.capacity() * 8 +
         pair_bits_.capacity() * 8 + made_.capacity() * sizeof(Made) + lengths_.capacity() * 2;
}

bool BpeModel::lookup_short(const PieceKey& key, uint64_t hash, ModelScratch* scratch, std::vector<TokenId>* ids,
                            const ShortSlot** slot) const {
  uint64_t i = hash & short_mask_;
  while (short_[i].id >= 0) {
    const ShortSlot& s = short_[i];
    if (s.key == key) {
      if (config_.ignore_merges || s.state.load(std::memory_order_relaxed) == kSelf) {
        ids->push_back(s.id);
        return true;
      }
      *slot = &s;
      break;
    }
    i = (i + 1) & short_mask_;
  }
  const PieceCache::Entry& e = scratch->cache.at(hash);
  if (!(e.key == key)) return false;
  for (TokenId id : e.ids) {
    if (id < 0) break;
    ids->push_back(id);
  }
  return true;
}

void BpeModel::remember(const PieceKey& key, uint64_t hash, const ShortSlot* slot, size_t first,
                        ModelScratch* scratch, const std::vector<TokenId>& ids) const {
  size_t count = ids.size() - first;
  if (slot) {
    bool self = count == 1 && ids[first] == slot->id;
    slot->state.store(self ? kSelf : kNotSelf, std::memory_order_relaxed);
    if (self) return;
  }
  if (count == 0 || count > PieceCache::kIds) return;
  PieceCache::Entry& e = scratch->cache.at(hash);
  e.key = key;
  for (size_t i = 0; i < PieceCache::kIds; ++i) e.ids[i] = i < count ? ids[first + i] : -1;
}

void BpeModel::encode(std::string_view piece, const char* readable_end, ModelScratch* scratch,
                      std::vector<TokenId>* ids) const {
  if (piece.size() <= kShortBytes && !affixes_) {
    PieceKey key = make_key(piece.data(), piece.size(), readable_end);
    uint64_t hash = key_hash(key);
    const ShortSlot* slot = nullptr;
    if (lookup_short(key, hash, scratch, ids, &slot)) return;
    size_t first = ids->size();
    config_.raw_bytes ? encode_bytes(piece, readable_end, scratch, ids)
                      : encode_chars(piece, readable_end, scratch, ids);
    remember(key, hash, slot, first, scratch, *ids);
    return;
  }
  if (config_.ignore_merges) {
    TokenId id = vocab_.find(piece);
    if (id >= 0) {
      ids->push_back(id);
      return;
    }
  }
  config_.raw_bytes ? encode_bytes(piece, readable_end, scratch, ids)
                    : encode_chars(piece, readable_end, scratch, ids);
}

void BpeModel::encode_bytes(std::string_view piece, const char* readable_end, ModelScratch* scratch,
                            std::vector<TokenId>* ids) const {
  auto known = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; };
  bool whole = all_bytes_ || std::all_of(piece.begin(), piece.end(), known);
  if (whole && !affixes_ && walk(piece, readable_end, scratch, ids)) return;
  std::vector<TokenId>& symbols = scratch->symbols;
  symbols.clear();
  for (char c : piece) {
    TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols.push_back(id);  // a byte without a token vanishes, as in the reference
  }
  merge(symbols.data(), symbols.size(), scratch, ids);
}

TokenId BpeModel::char_symbol(std::string_view one, uint32_t cp, bool first, bool last, std::string* buffer) const {
  if (!affixes_) return cp < 0x10000 ? chars_[cp] : vocab_.find(one);
  buffer->clear();
  if (!first) buffer->append(config_.continuing_subword_prefix);
  buffer->append(one);
  if (last) buffer->append(config_.end_of_word_suffix);
  return vocab_.find(*buffer);
}

// Fills scratch->symbols and, beside them, the end offset of the text of each.
void BpeModel::char_symbols(std::string_view piece, ModelScratch* scratch) const {
  std::vector<TokenId>& symbols = scratch->symbols;
  std::vector<uint32_t>& ends = scratch->offsets;
  symbols.clear();
  ends.clear();
  std::string buffer;
  bool pending_unk = false;
  size_t pending_end = 0;
  auto flush = [&] {
    if (!pending_unk) return;
    symbols.push_back(unk_id_);
    ends.push_back(static_cast<uint32_t>(pending_end));
    pending_unk = false;
  };
  size_t pos = 0;
  while (pos < piece.size()) {
    size_t begin = pos;
    uint32_t cp = utf8_next(piece.data(), &pos);
    std::string_view one = piece.substr(begin, pos - begin);
    TokenId id = char_symbol(one, cp, begin == 0, pos == piece.size(), &buffer);
    if (id >= 0) {
      flush();
      symbols.push_back(id);
      ends.push_back(static_cast<uint32_t>(pos));
      continue;
    }
    if (config_.byte_fallback) {
      std::string_view bytes = affixes_ ? std::string_view(buffer) : one;
      if (std::all_of(bytes.begin(), bytes.end(), [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; })) {
        for (char c : bytes) {
          symbols.push_back(byte_ids_[static_cast<uint8_t>(c)]);
          ends.push_back(static_cast<uint32_t>(pos));
        }
        continue;
      }
    }
    if (unk_id_ < 0) continue;
    if (!config_.fuse_unk) flush();
    pending_unk = true;
    pending_end = pos;
  }
  flush();
}

void BpeModel::encode_chars(std::string_view piece, const char* readable_end, ModelScratch* scratch,
                            std::vector<TokenId>* ids) const {
  char_symbols(piece, scratch);
  std::vector<TokenId>& symbols = scratch->symbols;
  if (!seams_ok_) {
    merge(symbols.data(), symbols.size(), scratch, ids);
    return;
  }
  size_t begin = 0;
  for (size_t i = 1; i <= symbols.size(); ++i) {
    if (i < symbols.size() && seam(symbols[i - 1], symbols[i])) continue;
    size_t from = begin == 0 ? 0 : scratch->offsets[begin - 1];
    size_t to = scratch->offsets[i - 1];
    bool whole = begin == 0 && i == symbols.size();  // the caller keeps the result of the whole piece
    encode_stretch(piece.substr(from, to - from), readable_end, {symbols.data() + begin, i - begin}, !whole, scratch,
                   ids);
    begin = i;
  }
}

// Is each symbol the token of one character? (Unknown characters and bytes are not.)
bool BpeModel::plain_symbols(std::string_view text, const TokenId* symbols, size_t count) const {
  if (utf8_count(text) != count) return false;
  size_t pos = 0;
  for (size_t i = 0; i < count; ++i) {
    size_t n = utf8_length(static_cast<uint8_t>(text[pos]));
    if (vocab_.text(symbols[i]) != text.substr(pos, n)) return false;
    pos += n;
  }
  return true;
}

void BpeModel::encode_stretch(std::string_view text, const char* readable_end, std::span<const TokenId> symbols,
                              bool cacheable, ModelScratch* scratch, std::vector<TokenId>* ids) const {
  size_t count = symbols.size();
  if (count == 1) {
    ids->push_back(symbols[0]);
    return;
  }
  // One symbol a character: otherwise the text does not determine the symbols (unknown characters, bytes).
  bool plain = plain_symbols(text, symbols.data(), count);
  if (!plain || !cacheable || text.size() > kShortBytes || config_.ignore_merges) {
    if (plain && count > kShortPlain && walk(text, readable_end, scratch, ids)) return;
    if (count > kShortMerge) return merge_long(symbols.data(), count, scratch, ids);
    TokenId copy[kShortMerge];
    std::copy(symbols.begin(), symbols.end(), copy);
    return merge_short(copy, count, ids);
  }
  PieceKey key = make_key(text.data(), text.size(), readable_end);
  uint64_t hash = key_hash(key);
  const ShortSlot* slot = nullptr;
  if (lookup_short(key, hash, scratch, ids, &slot)) return;
  size_t first = ids->size();
  if (!walk(text, readable_end, scratch, ids)) {
    TokenId copy[kShortMerge];
    std::copy(symbols.begin(), symbols.end(), copy);
    merge_short(copy, count, ids);
  }
  remember(key, hash, slot, first, scratch, *ids);
}

void BpeModel::merge(TokenId* symbols, size_t count, ModelScratch* scratch, std::vector<TokenId>* ids) const {
  if (count <= kShortMerge) {
    merge_short(symbols, count, ids);
  } else {
    merge_long(symbols, count, scratch, ids);
  }
}

void BpeModel::merge_short(TokenId* symbols, size_t count, std::vector<TokenId>* ids) const {
  size_t left = merge_in_place(symbols, count);
  ids->insert(ids->end(), symbols, symbols + left);
}

size_t BpeModel::merge_in_place(TokenId* symbols, size_t count) const {
  uint32_t ranks[kShortMerge + 1];
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = pair_rank(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    symbols[best] = merged_[ranks[best]];
    --count;
    std::memmove(symbols + best + 1, symbols + best + 2, (count - best - 1) * sizeof(TokenId));
    if (best + 1 < count) {
      std::memmove(ranks + best, ranks + best + 1, (count - best - 1) * sizeof(uint32_t));
      ranks[best] = pair_rank(symbols[best], symbols[best + 1]);
    }
    if (best > 0) ranks[best - 1] = pair_rank(symbols[best - 1], symbols[best]);
  }
  return count;
}

void BpeModel::merge_long(const TokenId* input, size_t count, ModelScratch* scratch,
                          std::vector<TokenId>* ids) const {
  // Symbols stay in place; `links` holds {previous, next} of each. A heap entry is rank << 32 | place; it is stale
  // when the rank at that place has changed.
  std::vector<TokenId> symbols(input, input + count);
  std::vector<uint32_t>& links = scratch->links;
  std::vector<uint64_t>& heap = scratch->heap;
  links.resize(count * 2);
  heap.clear();
  auto next = [&](size_t i) -> uint32_t& { return links[2 * i + 1]; };
  auto previous = [&](size_t i) -> uint32_t& { return links[2 * i]; };
  auto later = std::greater<uint64_t>();
  auto rank_at = [&](size_t i) {
    uint32_t n = next(i);
    return n >= count ? kNoRank : pair_rank(symbols[i], symbols[n]);
  };
  for (size_t i = 0; i < count; ++i) {
    previous(i) = static_cast<uint32_t>(i) - 1;
    next(i) = static_cast<uint32_t>(i) + 1;
  }
  for (size_t i = 0; i < count; ++i) {
    uint32_t rank = rank_at(i);
    if (rank != kNoRank) heap.push_back(static_cast<uint64_t>(rank) << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    uint64_t top = heap.back();
    heap.pop_back();
    auto i = static_cast<uint32_t>(top);
    auto rank = static_cast<uint32_t>(top >> 32);
    if (symbols[i] < 0 || rank_at(i) != rank) continue;
    uint32_t gone = next(i);
    symbols[i] = merged_[rank];
    symbols[gone] = -1;
    next(i) = next(gone);
    if (next(i) < count) previous(next(i)) = i;
    for (uint32_t at : {i, previous(i)}) {
      if (at >= count) continue;
      uint32_t r = rank_at(at);
      if (r == kNoRank) continue;
      heap.push_back(static_cast<uint64_t>(r) << 32 | at);
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  for (TokenId id : symbols) {
    if (id >= 0) ids->push_back(id);
  }
}

}  // namespace bora::text
