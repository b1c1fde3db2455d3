// The conformance suite of the list of schemes: sizes, checks, decoding of blocks by hand, round trips.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "quant/scheme.h"
#include "tensor/half.h"

namespace bora::quant {
namespace {

CodedMatrix matrix(const Scheme& s, const std::vector<std::byte>& bytes, int64_t rows, int64_t cols) {
  return {&s, rows, cols, {{bytes, DType::kU8, Shape{rows, cols}}}};
}

// Says what is wrong with a record; empty when nothing is.
std::string fault_of(const Scheme& s) {
  if (s.name.empty() || s.block < 1 || s.block_bytes < 1) return "no name or geometry";
  if (s.check == nullptr || s.decode == nullptr) return "no check or decode";
  if ((s.block > 1) != (s.read_block != nullptr)) return "blocks and their reader do not go together";
  if (std::abs(s.bits - s.block_bytes * 8.0 / s.block) > 1e-9) return "bits do not follow from the geometry";
  if (s.block > 1 && s.pieces.group % s.block != 0) return "a piece of K may end inside a block";
  const int64_t cols = int64_t{s.block} * 3;
  auto bytes = coded_bytes(s, 2, cols);
  if (!bytes.ok() || *bytes != 6 * int64_t{s.block_bytes}) return "wrong size";
  if (s.block > 1 && coded_bytes(s, 1, s.block + 1).ok()) return "accepts rows that end inside a block";
  std::vector<std::byte> data(static_cast<size_t>(*bytes));
  if (!s.check(matrix(s, data, 2, cols)).ok()) return "refuses its own size";
  if (s.check(matrix(s, data, 3, cols)).ok()) return "accepts a short tensor";
  data.push_back({});
  if (s.check(matrix(s, data, 2, cols)).ok()) return "accepts a long tensor";
  data.pop_back();
  // Decoding rows apart gives what decoding them together gives.
  Rng rng(1);
  for (std::byte& b : data) b = static_cast<std::byte>(rng.below(100));
  std::vector<float> all(static_cast<size_t>(2 * cols)), one(static_cast<size_t>(cols));
  s.decode(matrix(s, data, 2, cols), 0, 2, all.data());
  s.decode(matrix(s, data, 2, cols), 1, 2, one.data());
  if (std::memcmp(one.data(), all.data() + cols, one.size() * 4) != 0)
    return "a row depends on where decoding starts";
  return "";
}

TEST(Schemes, EveryRecordHolds) {
  std::set<std::string_view> names;
  for (const Scheme* s : schemes()) {
    EXPECT_EQ(fault_of(*s), "") << s->name;
    EXPECT_TRUE(names.insert(s->name).second);
    EXPECT_EQ(find_scheme(s->name), s);
    if (s->gguf_type >= 0) {
      EXPECT_EQ(scheme_of_gguf(static_cast<uint32_t>(s->gguf_type)), s);
    }
  }
  EXPECT_EQ(schemes().size(), 16u);
  EXPECT_EQ(find_scheme("q9"), nullptr);
  EXPECT_EQ(scheme_of_gguf(9999), nullptr);
  EXPECT_EQ(scheme_of_dtype(DType::kI32), nullptr);
}

TEST(Schemes, MutantsAreFound) {
  Scheme short_block = *find_scheme("q4_0");
  short_block.block_bytes = 17;
  EXPECT_NE(fault_of(short_block), "");
  Scheme small_group = *find_scheme("q4_k");
  small_group.pieces.group = 32;
  EXPECT_NE(fault_of(small_group), "");
  Scheme careless = *find_scheme("q8_0");
  careless.check = [](const CodedMatrix&) { return ok_status(); };
  EXPECT_NE(fault_of(careless), "");
  Scheme shifted = *find_scheme("f32");
  shifted.decode = [](const CodedMatrix& m, int64_t begin, int64_t end, float* out) {
    for (int64_t i = 0; i < (end - begin) * m.cols; ++i) out[i] = static_cast<float>(i + begin);
  };
  EXPECT_NE(fault_of(shifted), "");
}

TEST(Schemes, BlocksByHand) {
  // q4_0: d = 0.5, low nibbles 0..15, high nibbles 15.
  std::vector<std::byte> b(18);
  const uint16_t half = f32_to_f16(0.5f);
  std::memcpy(b.data(), &half, 2);
  for (int i = 0; i < 16; ++i) b[static_cast<size_t>(2 + i)] = static_cast<std::byte>(i | 0xF0);
  std::vector<float> out(32);
  find_scheme("q4_0")->decode(matrix(*find_scheme("q4_0"), b, 1, 32), 0, 1, out.data());
  EXPECT_EQ(out[0], -4.0f);
  EXPECT_EQ(out[15], 3.5f);
  EXPECT_EQ(out[16], 3.5f);
  find_scheme("iq4_nl")->decode(matrix(*find_scheme("iq4_nl"), b, 1, 32), 0, 1, out.data());
  EXPECT_EQ(out[0], -63.5f);
  EXPECT_EQ(out[8], 0.5f);
  EXPECT_EQ(out[31], 56.5f);
  std::vector<std::byte> m(17);
  m[0] = static_cast<std::byte>(128);   // 2^0 after halving
  m[1] = static_cast<std::byte>(0x9F);  // codes 15 and 9
  find_scheme("mxfp4")->decode(matrix(*find_scheme("mxfp4"), m, 1, 32), 0, 1, out.data());
  EXPECT_EQ(out[0], -12.0f);
  EXPECT_EQ(out[16], -1.0f);
}

// Random blocks against the gguf package's dequantize, bit by bit (tests/quant/make_vectors.py).
TEST(Schemes, EqualThePublicPackageBitByBit) {
  std::ifstream in(BORA_SOURCE_DIR "/tests/data/quant/vectors.bin", std::ios::binary);
  const std::vector<char> all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  size_t at = 0;
  int types = 0;
  while (at < all.size()) {
    const size_t length = static_cast<unsigned char>(all[at]);
    const std::string name(all.data() + at + 1, length);
    uint32_t sizes[2];
    std::memcpy(sizes, all.data() + at + 1 + length, 8);
    at += 9 + length;
    const Scheme* s = find_scheme(name);
    ASSERT_NE(s, nullptr) << name;
    std::vector<std::byte> blocks(sizes[0]);
    std::memcpy(blocks.data(), all.data() + at, blocks.size());
    std::vector<float> want(sizes[1]), got(sizes[1]);
    std::memcpy(want.data(), all.data() + at + blocks.size(), want.size() * 4);
    at += blocks.size() + want.size() * 4;
    const CodedMatrix m = matrix(*s, blocks, 1, static_cast<int64_t>(want.size()));
    ASSERT_TRUE(s->check(m).ok()) << name;
    s->decode(m, 0, 1, got.data());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0) << name;
    ++types;
  }
  EXPECT_EQ(types, 13);
}

TEST(Schemes, EncodersComeBackWithinTheirError) {
  Rng rng(9);
  std::vector<float> x(64 * 4);
  for (float& v : x) v = static_cast<float>(rng.uniform() * 4 - 2);
  int tested = 0;
  for (const Scheme* s : schemes()) {
    if (s->encode == nullptr) continue;
    std::vector<std::byte> bytes;
    ASSERT_TRUE(s->encode(x.data(), 4, 64, &bytes).ok());
    ASSERT_TRUE(s->check(matrix(*s, bytes, 4, 64)).ok());
    std::vector<float> back(x.size());
    s->decode(matrix(*s, bytes, 4, 64), 0, 4, back.data());
    // Half a step of the coarsest block here: 4-bit steps over [-2, 2] are 0.27; q4_0's far end may lose a whole one.
    const float bound = s->bits >= 16 ? 2.0f / 256 : s->bits > 8 ? 2.1f / 127 / 2 * 1.1f : 0.29f;
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(back[i], x[i], bound) << s->name;
    ++tested;
    if (s->block > 1) {
      EXPECT_FALSE(s->encode(x.data(), 1, 33, &bytes).ok());
    }
  }
  EXPECT_EQ(tested, 6);
  x[7] = NAN;
  std::vector<std::byte> bytes;
  EXPECT_FALSE(find_scheme("q8_0")->encode(x.data(), 4, 64, &bytes).ok());
}

}  // namespace
}  // namespace bora::quant
