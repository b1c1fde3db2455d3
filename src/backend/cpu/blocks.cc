// Block layouts of GGUF's types, as its public format describes them.
#include "backend/cpu/blocks.h"

#include <cstring>

#include "tensor/half.h"

namespace bora::cpu {
namespace {

uint16_t u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
uint32_t u32(const uint8_t* p) { return uint32_t{u16(p)} | uint32_t{u16(p + 2)} << 16; }

// 16 bytes of nibbles: the low ones are columns 0..15, the high ones 16..31.
void nibbles32(const uint8_t* qs, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = qs[i] & 15;
    codes[i + 16] = qs[i] >> 4;
  }
}

void fifth_bits(uint32_t high, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (high >> i & 1u) << 4);
}

void q4_0(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  nibbles32(b + 2, o->codes);
}

void q4_1(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  o->m = u16(b + 2);
  nibbles32(b + 4, o->codes);
}

void q5_0(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  nibbles32(b + 6, o->codes);
  fifth_bits(u32(b + 2), o->codes);
}

void q5_1(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  o->m = u16(b + 2);
  nibbles32(b + 8, o->codes);
  fifth_bits(u32(b + 4), o->codes);
}

void q8_0(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  for (int i = 0; i < 32; ++i) o->codes[i] = static_cast<uint8_t>(b[2 + i] ^ 0x80);
}

// Eight pairs of 6-bit numbers in 12 bytes.
void six_bit_pairs(const uint8_t* p, RawBlock* o) {
  for (int j = 0; j < 8; ++j) {
    if (j < 4) {
      o->sc[j] = static_cast<int8_t>(p[j] & 63);
      o->mins[j] = p[j + 4] & 63;
    } else {
      o->sc[j] = static_cast<int8_t>((p[j + 4] & 15) | (p[j - 4] >> 6) << 4);
      o->mins[j] = static_cast<uint8_t>((p[j + 4] >> 4) | (p[j] >> 6) << 4);
    }
  }
}

// 128 bytes of nibbles in four groups of 64 columns: low nibbles first.
void nibbles256(const uint8_t* qs, uint8_t* codes) {
  for (int g = 0; g < 4; ++g) {
    for (int i = 0; i < 32; ++i) {
      codes[g * 64 + i] = qs[g * 32 + i] & 15;
      codes[g * 64 + 32 + i] = qs[g * 32 + i] >> 4;
    }
  }
}

void q4_k(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  o->m = u16(b + 2);
  six_bit_pairs(b + 4, o);
  nibbles256(b + 16, o->codes);
}

void q5_k(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  o->m = u16(b + 2);
  six_bit_pairs(b + 4, o);
  nibbles256(b + 48, o->codes);
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      o->codes[g * 32 + i] = static_cast<uint8_t>(o->codes[g * 32 + i] | (b[16 + i] >> g & 1) << 4);
    }
  }
}

void q6_k(const uint8_t* b, RawBlock* o) {
  const uint8_t* low = b;
  const uint8_t* high = b + 128;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      uint8_t* to = o->codes + half * 128 + i;
      to[0] = static_cast<uint8_t>((low[i] & 15) | (high[i] & 3) << 4);
      to[32] = static_cast<uint8_t>((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
      to[64] = static_cast<uint8_t>((low[i] >> 4) | (high[i] >> 4 & 3) << 4);
      to[96] = static_cast<uint8_t>((low[i + 32] >> 4) | (high[i] >> 6) << 4);
    }
    low += 64;
    high += 32;
  }
  std::memcpy(o->sc, b + 192, 16);
  o->d = u16(b + 208);
}

// 64 bytes of two-bit codes: four planes of 32 columns in each half.
void two_bits256(const uint8_t* qs, uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int plane = 0; plane < 4; ++plane) {
      for (int i = 0; i < 32; ++i) {
        codes[half * 128 + plane * 32 + i] = static_cast<uint8_t>(qs[half * 32 + i] >> (2 * plane) & 3);
      }
    }
  }
}

void q2_k(const uint8_t* b, RawBlock* o) {
  for (int j = 0; j < 16; ++j) {
    o->sc[j] = static_cast<int8_t>(b[j] & 15);
    o->mins[j] = b[j] >> 4;
  }
  two_bits256(b + 16, o->codes);
  o->d = u16(b + 80);
  o->m = u16(b + 82);
}

void q3_k(const uint8_t* b, RawBlock* o) {
  two_bits256(b + 32, o->codes);
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      o->codes[g * 32 + i] = static_cast<uint8_t>(o->codes[g * 32 + i] | (b[i] >> g & 1) << 2);
    }
  }
  const uint8_t* p = b + 96;
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? p[j] & 15 : p[j - 8] >> 4;
    const int high = p[8 + j % 4] >> (2 * (j / 4)) & 3;
    o->sc[j] = static_cast<int8_t>((low | high << 4) - 32);
  }
  o->d = u16(b + 108);
}

void iq4_xs(const uint8_t* b, RawBlock* o) {
  o->d = u16(b);
  const unsigned high = u16(b + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = b[4 + j / 2] >> (4 * (j % 2)) & 15;
    o->sc[j] = static_cast<int8_t>((low | static_cast<int>(high >> (2 * j) & 3u) << 4) - 32);
    nibbles32(b + 8 + 16 * j, o->codes + 32 * j);
  }
}

void mxfp4(const uint8_t* b, RawBlock* o) {
  // Scale 2^(e - 128), since the table holds doubled values; exact in bfloat16.
  const float scale =
      b[0] < 2 ? (b[0] == 0 ? 0x1p-128f : 0x1p-127f) : std::bit_cast<float>(uint32_t{b[0] - 1u} << 23);
  o->d = f32_to_bf16(scale);
  nibbles32(b + 1, o->codes);
}

struct NamedReader {
  std::string_view scheme;
  BlockReader read;
};
constexpr NamedReader kReaders[] = {{"q4_0", q4_0},  {"q4_1", q4_1}, {"q5_0", q5_0},   {"q5_1", q5_1},
                                    {"q8_0", q8_0},  {"q2_k", q2_k}, {"q3_k", q3_k},   {"q4_k", q4_k},
                                    {"q5_k", q5_k},  {"q6_k", q6_k}, {"iq4_nl", q4_0}, {"iq4_xs", iq4_xs},
                                    {"mxfp4", mxfp4}};

}  // namespace

BlockReader find_reader(std::string_view scheme) {
  for (const NamedReader& r : kReaders) {
    if (r.scheme == scheme) return r.read;
  }
  return nullptr;
}

}  // namespace bora::cpu
