// Random numbers from explicit seeds. Two kinds:
//
//   Rng        a stream for simulations and ids: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
//              generators, 2014). Equal seeds give equal streams on every platform.
//   noise_u64  a pure function of (seed, choice, position, lane): sampling noise that does not depend on what else
//   runs,
//              on batch, preemption or retries. Four rounds of the SplitMix64 finaliser over the mixed coordinates.
#pragma once

#include <cstdint>

namespace bora {

constexpr uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix64(state_ += 0x9E3779B97F4A7C15ull); }
  // Uniform in [0, n). REQUIRES: n > 0. Bias below 2^-32 for n < 2^32.
  uint64_t below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }
  // Uniform in [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
  }
  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }

 private:
  uint64_t state_;
};

constexpr uint64_t noise_u64(uint64_t seed, uint32_t choice, uint32_t position, uint32_t lane) {
  uint64_t z = mix64(seed + 0x9E3779B97F4A7C15ull);
  z = mix64(z ^ (0x9E3779B97F4A7C15ull * (uint64_t{choice} + 1)));
  z = mix64(z ^ (0xC2B2AE3D27D4EB4Full * (uint64_t{position} + 1)));
  return mix64(z ^ (0x165667B19E3779F9ull * (uint64_t{lane} + 1)));
}

// (0, 1): never 0, so that its logarithm is finite. 24 bits, exact in float32 (and so the same on every device).
constexpr float noise_unit(uint64_t seed, uint32_t choice, uint32_t position, uint32_t lane) {
  return (static_cast<float>(noise_u64(seed, choice, position, lane) >> 40) + 0.5f) * 0x1p-24f;
}

}  // namespace bora
