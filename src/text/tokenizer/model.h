// Model: one piece of text to ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"

namespace bora::text {

// Ids of short pieces that are not one token, kept between pieces of one call. Direct-mapped and of fixed size; a
// piece of at most 15 bytes is its own key (bytes, then the length in the last byte).
struct PieceKey {
  uint64_t low;
  uint64_t high;
  bool operator==(const PieceKey&) const = default;
};
class PieceCache {
 public:
  static constexpr size_t kIds = 4;
  struct Entry {
    PieceKey key{0, 0};
    TokenId ids[kIds] = {};  // unused ones are -1
  };
  Entry& at(uint64_t hash) { return entries_[hash >> (64 - kBits)]; }

 private:
  static constexpr int kBits = 13;
  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << kBits);
};

// What one call of encode works with; reused from call to call, used by one thread at a time.
struct ModelScratch {
  PieceCache cache;
  std::vector<TokenId> symbols;
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> links;
  std::vector<uint64_t> heap;
  std::vector<double> scores;
  std::vector<uint32_t> starts;
  std::string text;
  // Answers about pairs of tokens, direct-mapped: key << 1 | answer.
  std::vector<uint64_t> pair_memo;
  size_t pair_misses = 0;
  std::vector<uint64_t> dead;  // bits
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the ids of a piece that is not empty. `readable_end`: bytes up to there may be read (not used) beyond the
  // piece.
  virtual void encode(std::string_view piece, const char* readable_end, ModelScratch* scratch,
                      std::vector<TokenId>* ids) const = 0;
  // Token texts by id, as find() sees them.
  virtual const Vocab& vocab() const = 0;
  // The vocabulary holds raw bytes instead of text (byte-level models).
  virtual bool raw_bytes() const { return false; }
};

}  // namespace bora::text
