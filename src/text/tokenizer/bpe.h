// Byte-pair encoding: start from characters (or bytes) and merge the neighbours of lowest rank, leftmost first, until
// no neighbours have a rank.
//
// How it is fast and still exact:
// - A token is its own encoding only if merging its characters really gives that token. Vocabularies hold tokens that
//   merging never reaches. Which they are is found once, while loading, with the last merge of each that is
//   (bpe_made.cc).
// - Pieces are encoded from left to right with backtracking (bpe_walk.cc), in linear time for runs and near it for
//   everything else. Plain merging and a heap serve where symbols are not simply the text's characters.
// - Pair ranks lie in one table of 64-bit words {left, right, rank} behind a filter of bits, because most questions
//   about pairs have the answer no; those of two bytes in a dense grid.
// - No merge ever joins two characters across a boundary whose character pair occurs at no merge's seam. Text is cut
//   at such boundaries first (exact, and it keeps stretches short where a model has no splitter).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/tokenizer/big_vector.h"
#include "text/tokenizer/bpe_detail.h"
#include "text/tokenizer/model.h"

namespace bora::text {

struct BpeConfig {
  bool raw_bytes = false;  // the vocabulary holds bytes and pieces start from bytes
  bool ignore_merges = false;
  bool fuse_unk = false;
  bool byte_fallback = false;
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
};

class BpeModel final : public Model {
 public:
  BpeModel(Vocab vocab, BpeConfig config);

  void reserve_merges(size_t count);
  // Merges in order of rank. A later merge of the same pair replaces an earlier one. Not ok when there are too many.
  Status add_merge(TokenId left, TokenId right, TokenId merged);
  // Another pair that gives the last added merge's token, at the same rank: of such pairs the leftmost is merged
  // first.
  Status add_equal_merge(TokenId left, TokenId right);
  // The token of left + right (without the prefix of continuing subwords), or -1.
  TokenId merged_id(TokenId left, TokenId right, std::string* scratch) const;
  // The table's line for a pair that is added soon.
  void prefetch_merge(TokenId left, TokenId right) const {
    if (!pairs_.empty()) prefetch_pair(left, right);
  }
  // Call once after the last merge.
  Status finish();

  void encode(std::string_view piece, const char* readable_end, ModelScratch* scratch,
              std::vector<TokenId>* ids) const override;
  const Vocab& vocab() const override { return vocab_; }
  bool raw_bytes() const override { return config_.raw_bytes; }
  size_t memory_bytes() const;

  static constexpr size_t kShortBytes = 15;

 private:
  // States of a short token's own encoding.
  enum : uint32_t { kUnknown = 0, kSelf = 1, kNotSelf = 2 };
  struct ShortSlot {
    PieceKey key;
    TokenId id;                           // -1 = empty
    mutable std::atomic<uint32_t> state;  // idempotent: every thread finds the same
    ShortSlot() : key{0, 0}, id(-1), state(kUnknown) {}
    ShortSlot(const ShortSlot& o) : key(o.key), id(o.id), state(o.state.load(std::memory_order_relaxed)) {}
    ShortSlot& operator=(const ShortSlot&) = delete;
  };

  // How a token arises in the encoding of its own text: the rank of its last merge plus one and that merge's sides;
  // 0 for a character (byte). Sides always arise earlier than the token: following them ends.
  struct Made {
    uint32_t made;
    TokenId left;
    TokenId right;
  };
  static constexpr uint32_t kNeverSelf = UINT32_MAX;        // it does not
  static constexpr uint32_t kMadeUnknown = UINT32_MAX - 1;  // ranks are out of order: merging must tell
  struct Step {
    TokenId id;
    uint32_t length;
  };
  struct Merge {
    TokenId left;
    TokenId right;
    uint32_t rank;
  };

  static constexpr uint32_t kNoRank = UINT32_MAX;
  uint32_t pair_rank(TokenId left, TokenId right) const {
    uint64_t key = pair_key(left, right);
    for (uint64_t i = spread_low(key) & pair_mask_;; i = (i + 1) & pair_mask_) {
      uint64_t word = pairs_[i];
      if (word >> kRankBits == key) return static_cast<uint32_t>(word & ((1u << kRankBits) - 1));
      if (word == kEmptyPair) return kNoRank;
    }
  }
  void prefetch_pair(TokenId left, TokenId right) const {
    __builtin_prefetch(&pairs_[spread_low(pair_key(left, right)) & pair_mask_], 1);
  }
  void put_pair(TokenId left, TokenId right, uint64_t rank);
  void build_pair_filter();
  bool maybe_pair(TokenId left, TokenId right) const {
    uint64_t bit = spread(pair_key(left, right)) >> pair_shift_;
    return pair_bits_[bit >> 6] >> (bit & 63) & 1;
  }
  void build_made();
  void build_short_table();
  void build_char_table();
  Status build_seams();
  bool seam(TokenId left, TokenId right) const;

  void encode_bytes(std::string_view piece, const char* readable_end, ModelScratch* scratch,
                    std::vector<TokenId>* ids) const;
  void encode_chars(std::string_view piece, const char* readable_end, ModelScratch* scratch,
                    std::vector<TokenId>* ids) const;
  void encode_stretch(std::string_view text, const char* readable_end, std::span<const TokenId> symbols,
                      bool cacheable, ModelScratch* scratch, std::vector<TokenId>* ids) const;
  bool plain_symbols(std::string_view text, const TokenId* symbols, size_t count) const;
  void char_symbols(std::string_view piece, ModelScratch* scratch) const;
  TokenId char_symbol(std::string_view one, uint32_t cp, bool first, bool last, std::string* buffer) const;
  // Both append the merged ids.
  void merge_short(TokenId* symbols, size_t count, std::vector<TokenId>* ids) const;
  size_t merge_in_place(TokenId* symbols, size_t count) const;  // number of ids left
  void merge_long(const TokenId* symbols, size_t count, ModelScratch* scratch, std::vector<TokenId>* ids) const;
  void merge(TokenId* symbols, size_t count, ModelScratch* scratch, std::vector<TokenId>* ids) const;
  // Text whose symbols are exactly its bytes or characters: see bpe_walk.cc. False (and nothing appended) when too many
  // pairs had to be merged to be judged.
  bool walk(std::string_view text, const char* readable_end, ModelScratch* scratch, std::vector<TokenId>* ids) const;
  bool walk_steps(std::string_view text, const char* readable_end, uint64_t* dead, Step* path, ModelScratch* scratch,
                  std::vector<TokenId>* ids) const;
  void build_walk_tables();
  // The longest token at `p` of those that are their own encoding and shorter than `below`; id -1 when none.
  Step candidate(const char* p, size_t left, size_t below, const char* readable_end, ModelScratch* scratch) const;
  Step long_candidate(std::string_view text, size_t below, ModelScratch* scratch) const;
  bool is_self(TokenId id, const ShortSlot* slot, ModelScratch* scratch) const;
  // Is {left, right} the encoding of their joint text?
  bool compatible(TokenId left, TokenId right, ModelScratch* scratch) const;
  // The same below the pair itself, for tokens of known making.
  bool compatible_inside(TokenId left, TokenId right) const;
  bool compatible_merged(TokenId left, TokenId right, ModelScratch* scratch) const;
  void merge_plain(std::string_view text, ModelScratch* scratch, std::vector<TokenId>* ids) const;
  const ShortSlot* find_short(const PieceKey& key) const;
  // Tries the tables for a short text; true when ids were appended. *slot gets the token's slot or null.
  bool lookup_short(const PieceKey& key, uint64_t hash, ModelScratch* scratch, std::vector<TokenId>* ids,
                    const ShortSlot** slot) const;
  void remember(const PieceKey& key, uint64_t hash, const ShortSlot* slot, size_t first, ModelScratch* scratch,
                const std::vector<TokenId>& ids) const;

  Vocab vocab_;
  BpeConfig config_;
  TokenId unk_id_ = -1;
  bool affixes_ = false;   // prefix or suffix: symbols depend on their place
  bool seams_ok_ = false;  // cutting at seams is exact
  TokenId byte_ids_[256];  // raw bytes, or the <0xXX> tokens
  HugeVector<uint64_t> pairs_;  // key << 22 | rank
  uint64_t pair_mask_ = 0;
  size_t pair_count_ = 0;
  BigVector<TokenId> merged_;  // by rank
  std::vector<uint32_t> grid_;   // ranks of two bytes
  HugeVector<ShortSlot> short_;
  uint64_t short_mask_ = 0;
  std::vector<TokenId> chars_;  // token of each character of the basic plane
  std::vector<uint64_t> seam_bits_;
  bool all_bytes_ = false;  // each byte (raw bytes) has a token
  bool replaced_ = false;   // some pair stands twice among the merges
  BigVector<Merge> order_;         // while loading
  std::vector<uint64_t> pair_bits_;  // filter of pairs_
  int pair_shift_ = 58;
  BigVector<Made> made_;           // by id; empty with affixes
  // By three bytes, hashed: bit n = a token of n bytes begins so; bit 0: one of 16 or more.
  std::vector<uint16_t> lengths_;
  std::vector<uint64_t> two_bytes_;  // bit by two bytes: they are a token
  std::unordered_map<uint64_t, std::vector<TokenId>>
      long_tokens_;  // by the hash of their first 16 bytes, longest first
};

}  // namespace bora::text
