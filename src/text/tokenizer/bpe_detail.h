// Keys of short pieces and of pairs, shared by the files that define BpeModel.
#pragma once

#include <cstring>
#include <string_view>

#include "text/tokenizer/model.h"

namespace bora::text {

constexpr size_t kShortMerge = 64;  // symbols up to which merging scans for the lowest rank
constexpr size_t kShortPlain = 3;   // symbols up to which merging beats walking
constexpr size_t kAhead = 16;       // table entries that are fetched ahead while loading

// Words of the pair table: left << 43 | right << 22 | rank.
constexpr int kRankBits = 22;
constexpr uint64_t kEmptyPair = UINT64_MAX;
constexpr uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(left) << 21 | static_cast<uint32_t>(right);
}
// Bits of the product: good from the top down, and folded for those who take the low ones.
constexpr uint64_t spread(uint64_t x) { return x * 0x9E3779B97F4A7C15u; }
constexpr uint64_t spread_low(uint64_t x) { return spread(x) ^ spread(x) >> 32; }

constexpr uint64_t low_mask(size_t bytes) { return bytes >= 8 ? UINT64_MAX : (uint64_t{1} << (8 * bytes)) - 1; }

// REQUIRES: 0 < n <= 15
inline PieceKey make_key(const char* p, size_t n, const char* readable_end) {
  uint64_t words[2] = {0, 0};
  if (readable_end - p >= 16) {
    std::memcpy(words, p, 16);
    words[0] &= low_mask(n);
    words[1] = n > 8 ? words[1] & low_mask(n - 8) : 0;
  } else {
    std::memcpy(words, p, n);
  }
  return {words[0], words[1] | static_cast<uint64_t>(n) << 56};
}

inline uint64_t key_hash(const PieceKey& k) {
  __uint128_t product = static_cast<__uint128_t>(k.low ^ 0x9E3779B97F4A7C15u) * (k.high ^ 0xD6E8FEB86659FD93u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace bora::text
