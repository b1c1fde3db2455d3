#include <algorithm>
#include <cstring>

#include "backend/cpu/packed.h"
#include "base/check.h"
#include "tensor/half.h"

namespace bora::cpu {
namespace {

bool dense(Form f) { return f == Form::kFloat32 || f == Form::kFloat16 || f == Form::kBFloat16; }
bool super(Form f) { return f >= Form::kSuperMin; }
bool half(Form f) { return f == Form::kSuperHalf || f == Form::kSuperHalfMin; }
bool has_min(Form f) { return f == Form::kBlockMin || f == Form::kSuperMin || f == Form::kSuperHalfMin; }

int64_t element_bytes(Form f) { return f == Form::kFloat32 ? 4 : 2; }

// Offsets inside one block or super-block of a tile.
struct Fields {
  int64_t head, sub, subs, planes, bytes;
  int32_t columns, blocks;
  explicit Fields(const Recipe& r) {
    const bool m = has_min(r.form);
    head = m ? 64 : 32;
    sub = super(r.form) ? (half(r.form) ? 256 : 128) : 0;
    subs = sub * (m && super(r.form) ? 2 : 1);
    planes = 64 * r.bits;
    blocks = super(r.form) ? 8 : 1;
    columns = 32 * blocks;
    bytes = head + subs + blocks * planes;
  }
};

// The 32 codes of row r into the planes of a block, four columns a word. Every byte of the row is written.
void put_codes(int32_t bits, std::byte* planes, int r, const uint8_t* codes) {
  uint32_t w[8];
  std::memcpy(w, codes, 32);
  const auto put = [&](int64_t chunk, uint32_t v) { std::memcpy(planes + 64 * chunk + 4 * r, &v, 4); };
  const auto twos = [&](int64_t plane, int c, int shift) {
    uint32_t v = 0;
    for (int j = 0; j < 4; ++j) v |= (w[4 * c + j] >> shift & 0x03030303u) << 2 * j;
    put(plane + c, v);
  };
  const auto ones = [&](int64_t plane, int shift) {
    uint32_t v = 0;
    for (int j = 0; j < 8; ++j) v |= (w[j] >> shift & 0x01010101u) << j;
    put(plane, v);
  };
  if (bits == 8) {
    for (int c = 0; c < 8; ++c) put(c, w[c]);
  } else if (bits < 4) {
    for (int c = 0; c < 2; ++c) twos(0, c, 0);
    if (bits == 3) ones(2, 2);
  } else {
    for (int c = 0; c < 4; ++c) put(c, (w[2 * c] & 0x0F0F0F0Fu) | (w[2 * c + 1] & 0x0F0F0F0Fu) << 4);
    if (bits == 5) ones(4, 4);
    if (bits == 6) {
      for (int c = 0; c < 2; ++c) twos(4, c, 4);
    }
  }
}

uint8_t get_code(int32_t bits, const std::byte* planes, int r, int k) {
  const auto at = [&](int64_t offset) { return std::to_integer<unsigned>(planes[offset + r * 4 + k % 4]); };
  const int c = k / 4;
  const auto two = [&](int64_t base) { return at(base + 64 * (c / 4)) >> 2 * (c % 4) & 3u; };
  const auto one = [&](int64_t base) { return at(base) >> c & 1u; };
  switch (bits) {
    case 8:
      return static_cast<uint8_t>(at(64 * c));
    case 2:
      return static_cast<uint8_t>(two(0));
    case 3:
      return static_cast<uint8_t>(two(0) | one(128) << 2);
    default:
      break;
  }
  const unsigned low = at(64 * (c / 2)) >> 4 * (c % 2) & 15u;
  if (bits == 5) return static_cast<uint8_t>(low | one(256) << 4);
  if (bits == 6) return static_cast<uint8_t>(low | two(256) << 4);
  return static_cast<uint8_t>(low);
}

void put_block(const Recipe& recipe, const Fields& f, const quant::RawBlock& raw, int r, std::byte* to) {
  std::memcpy(to + 2 * r, &raw.d, 2);
  if (has_min(recipe.form)) std::memcpy(to + 32 + 2 * r, &raw.m, 2);
  const int32_t subs = static_cast<int32_t>(f.sub / 16);
  for (int32_t s = 0; s < subs; ++s) {
    to[f.head + 16 * s + r] = static_cast<std::byte>(raw.sc[s]);
    if (f.subs > f.sub) to[f.head + f.sub + 16 * s + r] = static_cast<std::byte>(raw.mins[s]);
  }
  for (int32_t b = 0; b < f.blocks; ++b)
    put_codes(recipe.bits, to + f.head + f.subs + b * f.planes, r, raw.codes + 32 * b);
}

void pack_dense(const Recipe& recipe, std::span<const RowSource> rows, int64_t cols, int64_t tile, std::byte* out) {
  const int64_t width = element_bytes(recipe.form);
  for (int64_t r = 0; r < kTileRows; ++r) {
    const size_t row = static_cast<size_t>(tile * kTileRows + r);
    if (row >= rows.size()) continue;
    const std::byte* from = rows[row].matrix->components[0].bytes.data() + rows[row].row * cols * width;
    for (int64_t k = 0; k < cols; ++k) {
      std::memcpy(out + (k * kTileRows + r) * width, from + k * width, static_cast<size_t>(width));
    }
  }
}

}  // namespace

int64_t packed_bytes(const Recipe& recipe, int64_t rows, int64_t cols) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  int64_t tile = 0;
  if (dense(recipe.form)) {
    tile = cols * kTileRows * element_bytes(recipe.form);
  } else {
    const Fields f(recipe);
    tile = cols / f.columns * f.bytes;
  }
  return tiles * ((tile + 63) / 64 * 64);
}

void pack_rows(const Recipe& recipe, std::span<const RowSource> rows, int64_t cols, int64_t first, int64_t last,
               std::byte* out) {
  const int64_t count = static_cast<int64_t>(rows.size()), tiles = (count + kTileRows - 1) / kTileRows;
  const int64_t tile_bytes = tiles == 0 ? 0 : packed_bytes(recipe, count, cols) / tiles;
  for (int64_t t = first; t < last; ++t) {
    std::byte* tile = out + t * tile_bytes;
    if ((t + 1) * kTileRows > count) std::memset(tile, 0, static_cast<size_t>(tile_bytes));  // rows beyond the matrix
    if (dense(recipe.form)) {
      pack_dense(recipe, rows, cols, t, tile);
      continue;
    }
    const Fields f(recipe);
    const int64_t blocks = cols / f.columns;
    for (int64_t r = 0; r < kTileRows && t * kTileRows + r < count; ++r) {
      const RowSource& source = rows[static_cast<size_t>(t * kTileRows + r)];
      const quant::Scheme& scheme = *source.matrix->scheme;
      BORA_CHECK(scheme.read_block != nullptr, "a recipe for a scheme without blocks");
      const uint8_t* from = reinterpret_cast<const uint8_t*>(source.matrix->components[0].bytes.data()) +
                            source.row * blocks * scheme.block_bytes;
      for (int64_t b = 0; b < blocks; ++b) {
        quant::RawBlock raw;
        scheme.read_block(from + b * scheme.block_bytes, &raw);
        put_block(recipe, f, raw, static_cast<int>(r), tile + b * f.bytes);
      }
    }
  }
}

float unpack_value(const Packed& p, int64_t row, int64_t col) {
  const Recipe& recipe = *p.recipe;
  const std::byte* tile = p.tile(row / kTileRows);
  const int r = static_cast<int>(row % kTileRows);
  const auto load16 = [](const std::byte* at) {
    uint16_t v;
    std::memcpy(&v, at, 2);
    return v;
  };
  if (recipe.form == Form::kFloat32) {
    float v;
    std::memcpy(&v, tile + (col * kTileRows + r) * 4, 4);
    return v;
  }
  if (dense(recipe.form)) {
    const uint16_t v = load16(tile + (col * kTileRows + r) * 2);
    return recipe.form == Form::kFloat16 ? f16_to_f32(v) : bf16_to_f32(v);
  }
  const Fields f(recipe);
  const std::byte* block = tile + col / f.columns * f.bytes;
  const int32_t k = static_cast<int32_t>(col % f.columns);
  const uint8_t code = get_code(recipe.bits, block + f.head + f.subs + k / 32 * f.planes, r, k % 32);
  const int32_t value = (recipe.lookup ? recipe.table[code] : code) - recipe.zero;
  const uint16_t dbits = load16(block + 2 * r);
  const float d = recipe.e8m0 ? bf16_to_f32(dbits) : f16_to_f32(dbits);
  const float m = has_min(recipe.form) ? f16_to_f32(load16(block + 32 + 2 * r)) : 0.0f;
  if (!super(recipe.form)) return d * static_cast<float>(value) + m;
  const int32_t sub = k / (half(recipe.form) ? 16 : 32);
  const std::byte raw_scale = block[f.head + 16 * sub + r];
  const float scale = has_min(recipe.form) ? static_cast<float>(std::to_integer<int>(raw_scale))
                                           : static_cast<float>(static_cast<int8_t>(raw_scale));
  const float least =
      has_min(recipe.form) ? static_cast<float>(std::to_integer<int>(block[f.head + f.sub + 16 * sub + r])) : 0.0f;
  return d * scale * static_cast<float>(value) - m * least;
}

}  // namespace bora::cpu
