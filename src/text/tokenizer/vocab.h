// Vocab: token texts by id and ids by text, in flat arrays.
//
// Texts lie end to end in one block; the index is an open-addressing table of {hash, id}, so that a miss costs one
// cache line and a hit two. Ids may have holes. Filled by one thread, then read by any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/big_vector.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::text {

// 64-bit hash of a short byte string.
uint64_t hash_bytes(std::string_view bytes);

class Vocab {
 public:
  // Makes room; `ids` is the largest id + 1 expected.
  void reserve(size_t ids, size_t bytes);
  // Sets the text of `id`, which must not be set yet, and makes find(text) give it unless another id has the text
  // already and `replace` is false. Returns false when id is negative, too large (2^21 - 1 at most) or taken.
  bool add(TokenId id, std::string_view text, bool replace = true);
  // -1 when absent.
  TokenId find(std::string_view text) const { return find_hashed(text, hash_bytes(text)); }
  TokenId find_hashed(std::string_view text, uint64_t hash) const;
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }

  // Once the slot has arrived: the text it leads to.
  void prefetch_text(uint64_t hash) const {
    int32_t id = slots_[hash & mask_].id;
    if (id >= 0) __builtin_prefetch(blob_.data() + entries_[id].begin);
  }

  // Empty for holes (and for a token whose text is empty).
  std::string_view text(TokenId id) const {
    if (id < 0 || static_cast<size_t>(id) >= entries_.size()) return {};
    const Entry& e = entries_[id];
    return {blob_.data() + e.begin, e.length};
  }
  const char* readable_end() const { return blob_.data() + blob_.size(); }  // of all texts
  bool has(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[id].present; }
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }  // largest id + 1
  size_t memory_bytes() const;

  static constexpr TokenId kMaxId = (1 << 21) - 2;

 private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t length : 31 = 0;
    uint32_t present : 1 = 0;
  };
  struct Slot {
    uint32_t hash;
    int32_t id;  // -1 = empty
  };
  void grow();
  BigVector<char> blob_;
  BigVector<Entry> entries_;
  HugeVector<Slot> slots_ = HugeVector<Slot>(16, Slot{0, -1});
  uint64_t mask_ = 15;
  size_t used_ = 0;
};

}  // namespace bora::text
