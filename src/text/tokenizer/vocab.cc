#include "text/tokenizer/vocab.h"

#include <cstring>

namespace bora::text {
namespace {

constexpr uint64_t kMul1 = 0x9E3779B97F4A7C15u;
constexpr uint64_t kMul2 = 0xD6E8FEB86659FD93u;

uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t product = static_cast<__uint128_t>(a ^ kMul1) * (b ^ kMul2);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t seed = n * kMul1;
  while (n > 16) {
    std::memcpy(&a, p, 8);
    std::memcpy(&b, p + 8, 8);
    seed = mix(a ^ seed, b);
    p += 16;
    n -= 16;
  }
  a = b = 0;
  if (n >= 8) {
    std::memcpy(&a, p, 8);
    std::memcpy(&b, p + n - 8, 8);
  } else if (n >= 4) {
    uint32_t low;
    uint32_t high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    a = low;
    b = high;
  } else if (n > 0) {
    a = static_cast<uint64_t>(static_cast<uint8_t>(p[0])) << 16 |
        static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 | static_cast<uint8_t>(p[n - 1]);
  }
  return mix(a ^ seed, b ^ bytes.size());
}

void Vocab::reserve(size_t ids, size_t bytes) {
  entries_.reserve(ids);
  blob_.reserve(bytes);
  size_t want = 16;
  while (want < ids * 2) want *= 2;
  if (want > slots_.size()) {
    slots_.assign(want, Slot{0, -1});
    mask_ = want - 1;
    used_ = 0;
    for (size_t id = 0; id < entries_.size(); ++id) {
      if (!entries_[id].present) continue;
      uint64_t h = hash_bytes(text(static_cast<TokenId>(id)));
      uint64_t i = h & mask_;
      while (slots_[i].id >= 0) i = (i + 1) & mask_;
      slots_[i] = {static_cast<uint32_t>(h >> 32), static_cast<int32_t>(id)};
      ++used_;
    }
  }
}

void Vocab::grow() { reserve(slots_.size(), blob_.size()); }

bool Vocab::add(TokenId id, std::string_view text, bool replace) {
  if (id < 0 || id > kMaxId || has(id) || blob_.size() + text.size() > UINT32_MAX || text.size() > INT32_MAX)
    return false;
  if (static_cast<size_t>(id) >= entries_.size()) entries_.resize(id + 1);
  entries_[id].begin = static_cast<uint32_t>(blob_.size());
  entries_[id].length = static_cast<uint32_t>(text.size());
  entries_[id].present = 1;
  blob_.insert(blob_.end(), text.begin(), text.end());
  if ((used_ + 1) * 2 > slots_.size()) grow();
  uint64_t h = hash_bytes(text);
  uint64_t i = h & mask_;
  auto tag = static_cast<uint32_t>(h >> 32);
  while (slots_[i].id >= 0) {
    if (slots_[i].id == id) return true;  // indexed while growing
    if (slots_[i].hash == tag && this->text(slots_[i].id) == text) {
      if (replace) slots_[i].id = id;
      return true;
    }
    i = (i + 1) & mask_;
  }
  slots_[i] = {tag, id};
  ++used_;
  return true;
}

TokenId Vocab::find_hashed(std::string_view text, uint64_t hash) const {
  uint64_t i = hash & mask_;
  auto tag = static_cast<uint32_t>(hash >> 32);
  while (slots_[i].id >= 0) {
    if (slots_[i].hash == tag && this->text(slots_[i].id) == text) return slots_[i].id;
    i = (i + 1) & mask_;
  }
  return -1;
}

size_t Vocab::memory_bytes() const {
  return blob_.capacity() + entries_.capacity() * sizeof(Entry) + slots_.capacity() * sizeof(Slot);
}

}  // namespace bora::text
