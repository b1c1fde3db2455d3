// How each scheme's codes and scales become planes and fields. One reader a scheme takes a block of the file apart;
// the packer below is the same for all.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/packed.h"
#include "tensor/half.h"

namespace bora::cpu {
namespace {

// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, plus 127.
constexpr std::array<uint8_t, 16> kIq4Table{0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240};
// e2m1 doubled: 0 1 2 3 4 6 8 12 and their negatives, plus 12.
constexpr std::array<uint8_t, 16> kMxfp4Table{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

constexpr std::array<Recipe, 16> kRecipes{{
    {.scheme = "f32", .form = Form::kFloat32, .bits = 32},
    {.scheme = "f16", .form = Form::kFloat16, .bits = 16},
    {.scheme = "bf16", .form = Form::kBFloat16, .bits = 16},
    {.scheme = "q4_0", .form = Form::kBlock, .bits = 4, .zero = 8},
    {.scheme = "q4_1", .form = Form::kBlockMin, .bits = 4},
    {.scheme = "q5_0", .form = Form::kBlock, .bits = 5, .zero = 16},
    {.scheme = "q5_1", .form = Form::kBlockMin, .bits = 5},
    {.scheme = "q8_0", .form = Form::kBlock, .bits = 8, .zero = 128},
    {.scheme = "q2_k", .form = Form::kSuperHalfMin, .bits = 2},
    {.scheme = "q3_k", .form = Form::kSuperHalf, .bits = 3, .zero = 4},
    {.scheme = "q4_k", .form = Form::kSuperMin, .bits = 4},
    {.scheme = "q5_k", .form = Form::kSuperMin, .bits = 5},
    {.scheme = "q6_k", .form = Form::kSuperHalf, .bits = 6, .zero = 32},
    {.scheme = "iq4_nl", .form = Form::kBlock, .bits = 4, .zero = 127, .lookup = true, .table = kIq4Table},
    {.scheme = "iq4_xs", .form = Form::kSuper, .bits = 4, .zero = 127, .lookup = true, .table = kIq4Table},
    {.scheme = "mxfp4",
     .form = Form::kBlock,
     .bits = 4,
     .zero = 12,
     .lookup = true,
     .e8m0 = true,
     .table = kMxfp4Table},
}};

}  // namespace

const Recipe* find_recipe(const quant::Scheme& scheme) {
  for (const Recipe& r : kRecipes) {
    if (r.scheme == scheme.name) return &r;
  }
  return nullptr;
}

}  // namespace bora::cpu
