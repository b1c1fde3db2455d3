// The simulated device's memory and arithmetic. Private to the simulation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "kv/pool.h"

namespace bora::sched {

// Hash of a prefix; the empty prefix of a salt, and one more unit.
inline uint64_t prefix_root(kv::Salt salt) { return mix64(salt + 0x51ED2701ull); }
inline uint64_t prefix_next(uint64_t prefix, kv::Unit unit) {
  return mix64(prefix ^ (unit * 0x9E3779B97F4A7C15ull + 1));
}

// The model: the token after a prefix.
inline int32_t next_token(uint64_t prefix, uint64_t seed, int32_t choice) {
  return static_cast<int32_t>(mix64(prefix + seed * 3 + static_cast<uint64_t>(choice)) % 50);
}

class SimMemory {
 public:
  explicit SimMemory(std::span<const kv::GroupSpec> groups) : groups_(groups.begin(), groups.end()) {
    for (const kv::GroupSpec& g : groups_) {
      const int32_t width = g.keep == kv::Keep::kLast ? 1 : g.block;
      cells_.emplace_back(static_cast<size_t>(g.blocks) * static_cast<size_t>(width), 0);
    }
  }
  const kv::GroupSpec& spec(int32_t g) const { return groups_[static_cast<size_t>(g)]; }
  int32_t groups() const { return static_cast<int32_t>(groups_.size()); }

  uint64_t& cell(int32_t g, kv::BlockId block, int32_t offset) {
    const int32_t width = spec(g).keep == kv::Keep::kLast ? 1 : spec(g).block;
    return cells_[static_cast<size_t>(g)]
                 [static_cast<size_t>(block) * static_cast<size_t>(width) + static_cast<size_t>(offset)];
  }
  void copy(const kv::BlockCopy& c) {
    const int32_t width = spec(c.group).keep == kv::Keep::kLast ? 1 : spec(c.group).block;
    for (int32_t i = 0; i < width; ++i) cell(c.group, c.to, i) = cell(c.group, c.from, i);
  }

  // Reads what a row at position `at` reads and compares it with the prefix hashes (prefix[p] = hash of p units).
  Status read(int32_t g, std::span<const kv::BlockId> table, int32_t at, std::span<const uint64_t> prefix) {
    const kv::GroupSpec& s = spec(g);
    const int32_t from = s.keep == kv::Keep::kWindow ? std::max(0, at - s.window + 1) : 0;
    for (int32_t p = from; p < at; ++p) {
      const size_t index = static_cast<size_t>(p / s.block);
      if (index >= table.size() || table[index] < 0)
        return internal_error("reads position " + std::to_string(p) + ", which has no block");
      if (cell(g, table[index], p % s.block) != prefix[static_cast<size_t>(p) + 1]) {
        return internal_error("reads at position " + std::to_string(p) + " what somebody else wrote (group " +
                              std::to_string(g) + ")");
      }
    }
    return {};
  }

 private:
  std::vector<kv::GroupSpec> groups_;
  std::vector<std::vector<uint64_t>> cells_;
};

}  // namespace bora::sched
