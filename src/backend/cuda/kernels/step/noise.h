// Sampling noise: a function of (seed, choice, position, token) and of nothing else. Philox4x32-10 (Salmon et
// al., SC 2011) keyed by the seed, counter (token / 4, position, choice, 0); word token % 4 is the token's.
// Host and device share it.
#pragma once

#include <cstdint>

namespace bora::cuda {

struct NoiseWords {
  uint32_t word[4];
};

constexpr NoiseWords philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2) {
  uint32_t x0 = c0, x1 = c1, x2 = c2, x3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * x0, p1 = uint64_t{0xCD9E8D57u} * x2;
    const uint32_t y0 = static_cast<uint32_t>(p1 >> 32) ^ x1 ^ k0, y2 = static_cast<uint32_t>(p0 >> 32) ^ x3 ^ k1;
    x1 = static_cast<uint32_t>(p1), x3 = static_cast<uint32_t>(p0);
    x0 = y0, x2 = y2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{x0, x1, x2, x3}};
}

// In (0, 1], fine near 0: -log1p(-u) is an exponential variable whose small values (the winners) are resolved
// to 2^-33.
constexpr float noise_uniform(uint32_t word) { return (static_cast<float>(word) + 0.5f) * 0x1p-32f; }

}  // namespace bora::cuda
