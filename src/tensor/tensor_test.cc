#include <gtest/gtest.h>

#include <cmath>

#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/shape.h"

namespace bora {
namespace {

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(dtype_from_safetensors("BF16"), DType::kBF16);
  EXPECT_EQ(dtype_from_safetensors("F8_E4M3"), DType::kF8E4M3);
  EXPECT_EQ(dtype_from_safetensors("nope"), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2);
  EXPECT_EQ(dtype_name(DType::kI32), "i32");
}

TEST(Shape, Basics) {
  Shape s{2, 3, 4};
  EXPECT_EQ(s.elements(), 24);
  EXPECT_EQ(s.dim(-1), 4);
  EXPECT_EQ(s.to_string(), "[2, 3, 4]");
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_FALSE(s == (Shape{2, 3}));
}

// Every f16 against the definition of the format, and back.
TEST(Half, F16IsExactBothWays) {
  for (uint32_t h = 0; h < 0x10000u; ++h) {
    const int exponent = static_cast<int>((h >> 10) & 31u);
    const double fraction = h & 0x3FFu;
    const double sign = (h & 0x8000u) ? -1.0 : 1.0;
    const float f = f16_to_f32(static_cast<uint16_t>(h));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(f), fraction != 0);
      if (fraction == 0) {
        EXPECT_EQ(f, sign * INFINITY);
      }
    } else {
      const double want =
          exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024.0 + fraction, exponent - 25);
      ASSERT_EQ(static_cast<double>(f), want) << h;
      ASSERT_EQ(f32_to_f16(f), h);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3C00);  // tie to even
  EXPECT_EQ(f32_to_f16(1.0f + 0x3p-11f), 0x3C02);  // tie to even, upward
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);         // overflow
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);    // half of the smallest: tie to zero
  EXPECT_EQ(f32_to_f16(0x1.8p-24f), 0x0002);  // tie to even
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x3p-8f), 0x3F82);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

}  // namespace
}  // namespace bora
