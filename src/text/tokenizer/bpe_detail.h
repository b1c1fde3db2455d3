// Keys of short pieces, shared by the files that define BpeModel.
#pragma once

#include <cstring>
#include <string_view>

#include "text/tokenizer/model.h"

namespace bora::text {

constexpr size_t kShortMerge = 64;  // symbols up to which a scan beats everything else

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
