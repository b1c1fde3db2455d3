#include <string>

#include "quant/schemes/blocks.h"

namespace bora::quant {

void nibbles32(const uint8_t* qs, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = qs[i] & 15;
    codes[i + 16] = qs[i] >> 4;
  }
}

void nibbles256(const uint8_t* qs, uint8_t* codes) {
  for (int g = 0; g < 4; ++g) {
    for (int i = 0; i < 32; ++i) {
      codes[g * 64 + i] = qs[g * 32 + i] & 15;
      codes[g * 64 + 32 + i] = qs[g * 32 + i] >> 4;
    }
  }
}

void two_bits256(const uint8_t* qs, uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int plane = 0; plane < 4; ++plane) {
      for (int i = 0; i < 32; ++i) {
        codes[half * 128 + plane * 32 + i] = static_cast<uint8_t>(qs[half * 32 + i] >> (2 * plane) & 3);
      }
    }
  }
}

void fifth_bits32(uint32_t high, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (high >> i & 1u) << 4);
}

void six_bit_pairs(const uint8_t* p, RawBlock* out) {
  for (int j = 0; j < 8; ++j) {
    if (j < 4) {
      out->sc[j] = static_cast<int8_t>(p[j] & 63);
      out->mins[j] = p[j + 4] & 63;
    } else {
      out->sc[j] = static_cast<int8_t>((p[j + 4] & 15) | (p[j - 4] >> 6) << 4);
      out->mins[j] = static_cast<uint8_t>((p[j + 4] >> 4) | (p[j] >> 6) << 4);
    }
  }
}

std::span<const ComponentSpec> weight_component() {
  static constexpr ComponentSpec kWeight[] = {{.suffix = "weight"}};
  return kWeight;
}

Status check_one_component(const CodedMatrix& m) {
  if (m.components.size() != 1) {
    return invalid_argument(std::string(m.scheme->name) + " has one tensor a weight, found " +
                            std::to_string(m.components.size()));
  }
  BORA_ASSIGN(const int64_t bytes, coded_bytes(*m.scheme, m.rows, m.cols));
  if (static_cast<int64_t>(m.components[0].bytes.size()) != bytes) {
    return invalid_argument(std::string(m.scheme->name) + " [" + std::to_string(m.rows) + ", " +
                            std::to_string(m.cols) + "] takes " + std::to_string(bytes) + " bytes, found " +
                            std::to_string(m.components[0].bytes.size()));
  }
  return {};
}

}  // namespace bora::quant
