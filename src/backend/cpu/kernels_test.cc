// Every level against a double reference, every level against every other bit by bit, every number of rows against
// one row.
#include "backend/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/rng.h"
#include "tensor/half.h"

namespace bora::cpu {
namespace {

struct Aligned {
  explicit Aligned(size_t bytes) : data(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {}
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::byte* data;
};

struct Case {
  const char* scheme;
  int32_t block, block_bytes, d_at, m_at;  // offsets of f16 scales in a block, -1 none
  int32_t group;
};
constexpr Case kCases[] = {
    {"q4_0", 32, 18, 0, -1, 32},      {"q4_1", 32, 20, 0, 2, 32},    {"q5_0", 32, 22, 0, -1, 32},
    {"q5_1", 32, 24, 0, 2, 32},       {"q8_0", 32, 34, 0, -1, 32},   {"q2_k", 256, 84, 80, 82, 256},
    {"q3_k", 256, 110, 108, -1, 256}, {"q4_k", 256, 144, 0, 2, 256}, {"q5_k", 256, 176, 0, 2, 256},
    {"q6_k", 256, 210, 208, -1, 256}, {"iq4_nl", 32, 18, 0, -1, 32}, {"iq4_xs", 256, 136, 0, -1, 256},
    {"mxfp4", 32, 17, -1, -1, 32}};
constexpr Case kDense[] = {{"f32", 1, 4, -1, -1, 1}, {"f16", 1, 2, -1, -1, 1}, {"bf16", 1, 2, -1, -1, 1}};

// Random blocks with scales of ordinary size.
std::vector<std::byte> random_blocks(const Case& c, int64_t rows, int64_t cols, Rng* rng) {
  std::vector<std::byte> out(static_cast<size_t>(rows * cols / c.block * c.block_bytes));
  for (std::byte& b : out) b = static_cast<std::byte>(rng->next());
  const auto put = [&](size_t at, uint16_t v) { std::memcpy(out.data() + at, &v, 2); };
  for (size_t at = 0; at < out.size(); at += static_cast<size_t>(c.block_bytes)) {
    if (c.d_at >= 0)
      put(at + static_cast<size_t>(c.d_at), f32_to_f16(static_cast<float>(rng->uniform() * 0.02 - 0.01)));
    if (c.m_at >= 0)
      put(at + static_cast<size_t>(c.m_at), f32_to_f16(static_cast<float>(rng->uniform() * 0.1 - 0.05)));
    if (std::string_view(c.scheme) == "mxfp4") out[at] = static_cast<std::byte>(118 + rng->below(6));
    if (std::string_view(c.scheme) == "f32") {
      const float v = static_cast<float>(rng->uniform() - 0.5);
      std::memcpy(out.data() + at, &v, 4);
    }
    if (std::string_view(c.scheme) == "f16") put(at, f32_to_f16(static_cast<float>(rng->uniform() - 0.5)));
    if (std::string_view(c.scheme) == "bf16") put(at, f32_to_bf16(static_cast<float>(rng->uniform() - 0.5)));
  }
  return out;
}

struct Matrix {
  std::vector<std::byte> raw;
  std::unique_ptr<Aligned> memory;
  quant::Scheme scheme;
  Packed packed;
};

std::unique_ptr<Matrix> make_matrix(const Case& c, int64_t rows, int64_t cols, Rng* rng) {
  auto m = std::make_unique<Matrix>();
  m->raw = random_blocks(c, rows, cols, rng);
  m->scheme = *quant::find_scheme(c.scheme);
  const Recipe* recipe = find_recipe(m->scheme);
  BORA_CHECK(recipe != nullptr, "no recipe");
  quant::CodedMatrix coded{&m->scheme, rows, cols, {{m->raw, DType::kU8, Shape{rows, cols}}}};
  const int64_t bytes = packed_bytes(*recipe, rows, cols);
  m->memory = std::make_unique<Aligned>(static_cast<size_t>(bytes));
  const int64_t tiles = (rows + 15) / 16;
  std::vector<RowSource> sources;
  for (int64_t r = 0; r < rows; ++r) sources.push_back({&coded, r});
  pack_rows(*recipe, sources, cols, 0, tiles, m->memory->data);
  m->packed = {recipe, rows, cols, tiles, bytes / tiles, {c.group, false}, m->memory->data};
  return m;
}

struct Rows {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
  std::vector<float> totals, shifts;
  QuantRows view;
  Rows(int64_t rows, int64_t cols)
      : codes(static_cast<size_t>(rows * cols)),
        scales(static_cast<size_t>(rows * cols / 32)),
        sums(static_cast<size_t>(rows * cols / 16)),
        totals(scales.size()),
        shifts(scales.size()) {
    view = {codes.data(), scales.data(), sums.data(), totals.data(), shifts.data(), rows, cols};
  }
};

std::vector<float> random_rows(int64_t rows, int64_t cols, Rng* rng) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (float& v : x) v = static_cast<float>((rng->uniform() - 0.5) * (rng->chance(0.01) ? 40 : 2));
  return x;
}

std::vector<const IsaLevel*> present_levels() {
  std::vector<const IsaLevel*> out;
  for (const IsaLevel* level : isa_levels()) {
    if (level->present()) {
      out.push_back(level);
    } else {
      std::printf("level %.*s is not on this machine: not tested\n", static_cast<int>(level->name.size()),
                  level->name.data());
    }
  }
  return out;
}

std::vector<float> run_linear(const Kernels& k, const Matrix& m, const std::vector<float>& x, int64_t rows) {
  const int64_t cols = m.packed.cols, width = m.packed.tiles * 16;
  std::vector<float> out(static_cast<size_t>(rows * width), NAN);
  if (m.packed.recipe->bits >= 16) {
    k.linear_f(m.packed, x.data(), cols, rows, 0, m.packed.tiles, out.data(), width);
    return out;
  }
  Rows q(rows, cols);
  for (int64_t r = 0; r < rows; ++r) k.quantize(x.data(), cols, r, &q.view);
  k.linear_q(m.packed, q.view, 0, m.packed.tiles, out.data(), width);
  return out;
}

// Against double: decoded weights times the activations as they were quantized.
void check_reference(const Kernels& k, const Matrix& m, const std::vector<float>& x, int64_t rows,
                     const std::vector<float>& got) {
  const int64_t cols = m.packed.cols, width = m.packed.tiles * 16;
  std::vector<double> a(x.begin(), x.end());
  if (m.packed.recipe->bits < 16) {
    Rows q(rows, cols);
    for (int64_t r = 0; r < rows; ++r) k.quantize(x.data(), cols, r, &q.view);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(q.scales[i / 32]) * q.codes[i];
  }
  for (int64_t r = 0; r < m.packed.rows; ++r) {
    std::vector<double> w(static_cast<size_t>(cols));
    for (int64_t c = 0; c < cols; ++c) w[static_cast<size_t>(c)] = static_cast<double>(unpack_value(m.packed, r, c));
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0, size = 0;
      for (int64_t c = 0; c < cols; ++c) {
        sum += w[static_cast<size_t>(c)] * a[static_cast<size_t>(i * cols + c)];
        size += std::abs(w[static_cast<size_t>(c)] * a[static_cast<size_t>(i * cols + c)]);
      }
      ASSERT_NEAR(got[static_cast<size_t>(i * width + r)], sum, 1e-6 * size + 1e-6) << m.scheme.name << " row " << r;
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t r = m.packed.rows; r < width; ++r) ASSERT_EQ(got[static_cast<size_t>(i * width + r)], 0.0f);
  }
}

TEST(Linear, EveryLevelAndEveryNumberOfRowsGiveTheSameBits) {
  Rng rng(11);
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), std::begin(kDense), std::end(kDense));
  const auto levels = present_levels();
  if (levels.empty()) GTEST_SKIP() << "this machine has no instruction-set level of this backend";
  for (const Case& c : cases) {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{48, 512}, {37, 768}, {16, 256}}) {
      SCOPED_TRACE(std::string(c.scheme) + " " + std::to_string(rows) + " x " + std::to_string(cols));
      auto m = make_matrix(c, rows, cols, &rng);
      const int64_t most = 21, width = m->packed.tiles * 16;
      const std::vector<float> x = random_rows(most, cols, &rng);
      const std::vector<float> want = run_linear(*levels[0]->kernels, *m, x, most);
      check_reference(*levels[0]->kernels, *m, x, most, want);
      for (const IsaLevel* level : levels) {
        for (int64_t n : {1, 2, 3, 7, 8, 16, 21}) {
          const std::vector<float> got = run_linear(*level->kernels, *m, x, n);
          for (int64_t i = 0; i < n * width; ++i)
            ASSERT_EQ(got[static_cast<size_t>(i)], want[static_cast<size_t>(i)]) << level->name << " rows " << n;
        }
      }
    }
  }
}

// The packed form holds what the scheme decodes, for every scheme of the list.
TEST(Pack, HoldsWhatTheSchemeDecodes) {
  Rng rng(23);
  int tested = 0;
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), std::begin(kDense), std::end(kDense));
  for (const Case& c : cases) {
    auto m = make_matrix(c, 37, 512, &rng);
    quant::CodedMatrix coded{&m->scheme, 37, 512, {{m->raw, DType::kU8, Shape{37, 512}}}};
    ASSERT_TRUE(m->scheme.check(coded).ok()) << c.scheme;
    std::vector<float> want(37 * 512);
    m->scheme.decode(coded, 0, 37, want.data());
    for (int64_t i = 0; i < 37 * 512; ++i) {
      ASSERT_EQ(unpack_value(m->packed, i / 512, i % 512), want[static_cast<size_t>(i)])
          << c.scheme << " element " << i;
    }
    ++tested;
  }
  EXPECT_EQ(tested, static_cast<int>(quant::schemes().size()));
}

TEST(Quantize, BoundsAndSums) {
  const auto levels = present_levels();
  if (levels.empty()) GTEST_SKIP() << "this machine has no instruction-set level of this backend";
  for (const IsaLevel* level : levels) {
    Rng rng(3);
    std::vector<float> x = random_rows(1, 96, &rng);
    for (int i = 32; i < 64; ++i) x[static_cast<size_t>(i)] = 0;
    Rows q(1, 96);
    level->kernels->quantize(x.data(), 96, 0, &q.view);
    for (int b = 0; b < 3; ++b) {
      float most = 0;
      int32_t sums[2] = {0, 0};
      for (int i = 0; i < 32; ++i) {
        const float v = x[static_cast<size_t>(b * 32 + i)];
        const float back = q.scales[static_cast<size_t>(b)] * q.codes[static_cast<size_t>(b * 32 + i)];
        ASSERT_LE(std::abs(v - back), q.scales[static_cast<size_t>(b)] * 0.5001f);
        most = std::max(most, std::abs(v));
        sums[i / 16] += q.codes[static_cast<size_t>(b * 32 + i)];
      }
      EXPECT_EQ(q.scales[static_cast<size_t>(b)], most / 127.0f);
      EXPECT_EQ(q.sums[static_cast<size_t>(2 * b)], sums[0]);
      EXPECT_EQ(q.sums[static_cast<size_t>(2 * b + 1)], sums[1]);
      EXPECT_EQ(q.totals[static_cast<size_t>(b)], static_cast<float>(sums[0] + sums[1]));
      EXPECT_EQ(q.shifts[static_cast<size_t>(b)], q.scales[static_cast<size_t>(b)] * q.totals[static_cast<size_t>(b)]);
    }
  }
}

TEST(Elementwise, AgainstDoubleAndAmongLevels) {
  Rng rng(5);
  const auto levels = present_levels();
  if (levels.empty()) GTEST_SKIP() << "this machine has no instruction-set level of this backend";
  for (int64_t n : {1, 15, 16, 17, 64, 576, 640, 1001}) {
    const std::vector<float> a = random_rows(1, n, &rng), b = random_rows(1, n, &rng);
    std::vector<std::vector<float>> first;
    for (const IsaLevel* level : levels) {
      const Kernels& k = *level->kernels;
      std::vector<std::vector<float>> out(6, std::vector<float>(static_cast<size_t>(n)));
      k.rms_norm(a.data(), b.data(), 1.0f, 1e-6f, n, out[0].data());
      k.rms_norm(a.data(), nullptr, 0.0f, 1e-5f, n, out[1].data());
      k.add(a.data(), b.data(), n, out[2].data());
      k.scale(a.data(), 3.5f, n, out[3].data());
      k.silu_mul(a.data(), b.data(), n, out[4].data());
      k.gelu_tanh_mul(a.data(), b.data(), n, out[5].data());
      double squares = 0;
      for (float v : a) squares += double{v} * v;
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-6);
      const double plain = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      for (size_t i = 0; i < a.size(); ++i) {
        const double x = a[i], y = b[i];
        ASSERT_NEAR(out[0][i], x * inverse * (y + 1), 1e-6 * (1 + std::abs(x * inverse * (y + 1))));
        ASSERT_NEAR(out[1][i], x * plain, 1e-6 * (1 + std::abs(x * plain)));
        ASSERT_EQ(out[2][i], a[i] + b[i]);
        ASSERT_EQ(out[3][i], a[i] * 3.5f);
        const double silu = x / (1 + std::exp(-x)) * y;
        ASSERT_NEAR(out[4][i], silu, 2e-6 * (1 + std::abs(silu)));
        const double gelu = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) * y;
        ASSERT_NEAR(out[5][i], gelu, 2e-6 * (1 + std::abs(gelu)));
      }
      if (first.empty()) first = out;
      ASSERT_EQ(out, first) << level->name;
    }
  }
}

// One sequence's cache in pages, at a random place each.
struct Cache {
  std::vector<std::byte> k, v;
  std::vector<int32_t> table;
  std::vector<float> keys, values;  // as rounded, [kv_heads, n, head_dim]
};

Cache make_cache(const Kernels& kernels, int32_t n, int32_t kv_heads, int32_t dim, KvType type, Rng* rng) {
  Cache c;
  const int32_t blocks = (n + 15) / 16, bytes = type == KvType::kF32 ? 4 : 2;
  const int32_t width = (dim + 15) / 16 * 16;
  const int64_t block_bytes = int64_t{16} * kv_heads * width * bytes;
  c.k.resize(static_cast<size_t>((blocks + 5) * block_bytes));
  c.v.resize(c.k.size());
  for (int32_t i = 0; i < blocks; ++i) c.table.push_back((i * 7 + 3) % (blocks + 5));
  while (true) {  // distinct pages
    std::vector<int32_t> sorted = c.table;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) break;
    for (int32_t i = 0; i < blocks; ++i) c.table[static_cast<size_t>(i)] = blocks - 1 - i;
  }
  for (int32_t h = 0; h < kv_heads; ++h) {
    for (int32_t p = 0; p < n; ++p) {
      const std::vector<float> k = random_rows(1, dim, rng), v = random_rows(1, dim, rng);
      const int64_t page = c.table[static_cast<size_t>(p / 16)] * block_bytes + int64_t{h} * 16 * width * bytes;
      kernels.store_kv(k.data(), dim, type, 16, c.k.data() + page + (p % 16) * bytes);
      kernels.store_kv(v.data(), dim, type, 1, c.v.data() + page + int64_t{p % 16} * width * bytes);
      for (int32_t d = 0; d < dim; ++d) {
        const auto round = [&](float x) {
          return type == KvType::kF32   ? x
                 : type == KvType::kF16 ? f16_to_f32(f32_to_f16(x))
                                        : bf16_to_f32(f32_to_bf16(x));
        };
        c.keys.push_back(round(k[static_cast<size_t>(d)]));
        c.values.push_back(round(v[static_cast<size_t>(d)]));
      }
    }
  }
  return c;
}

TEST(Attention, AgainstDoubleAndAmongLevels) {
  Rng rng(17);
  const auto levels = present_levels();
  if (levels.empty()) GTEST_SKIP() << "this machine has no instruction-set level of this backend";
  for (const auto& [kv_heads, group, dim] :
       {std::tuple<int32_t, int32_t, int32_t>{3, 3, 64}, {1, 4, 256}, {2, 1, 32}, {1, 7, 80}, {2, 3, 24}}) {
    for (int32_t n : {1, 15, 16, 17, 255, 256, 257, 600}) {
      const KvType type = static_cast<KvType>(rng.below(3));
      const float cap = rng.chance(0.3) ? 30.0f : 0.0f;
      const int32_t begin = rng.chance(0.5) ? 0 : static_cast<int32_t>(rng.below(static_cast<uint64_t>(n)));
      const Cache c = make_cache(*levels[0]->kernels, n, kv_heads, dim, type, &rng);
      const std::vector<float> q = random_rows(kv_heads * group, dim, &rng);
      std::vector<float> first;
      for (const IsaLevel* level : levels) {
        std::vector<float> out(q.size(), NAN), scratch(kAttentionScratch);
        AttentionArgs a{
            .q = q.data(),
            .out = out.data(),
            .k = c.k.data(),
            .v = c.v.data(),
            .block_stride = int64_t{16} * kv_heads * ((dim + 15) / 16 * 16) * (type == KvType::kF32 ? 4 : 2),
            .type = type,
            .table = c.table.data(),
            .group = group,
            .head_dim = dim,
            .begin = begin,
            .end = n,
            .scale = 0.125f,
            .softcap = cap,
            .scratch = scratch.data()};
        // In one go, and cut at a random head.
        level->kernels->attention(a, 0, kv_heads * group);
        if (first.empty()) first = out;
        ASSERT_EQ(out, first) << level->name;
        const int32_t cut = static_cast<int32_t>(rng.below(static_cast<uint64_t>(kv_heads * group + 1)));
        std::fill(out.begin(), out.end(), NAN);
        level->kernels->attention(a, 0, cut);
        level->kernels->attention(a, cut, kv_heads * group);
        if (first.empty()) first = out;
        ASSERT_EQ(out, first) << level->name;
      }
      for (int32_t h = 0; h < kv_heads * group; ++h) {
        std::vector<double> s;
        double most = -1e300, sum = 0;
        for (int32_t p = begin; p < n; ++p) {
          double dot = 0;
          for (int32_t d = 0; d < dim; ++d)
            dot += double{q[static_cast<size_t>(h * dim + d)]} *
                   c.keys[static_cast<size_t>((h / group * n + p) * dim + d)];
          dot *= 0.125;
          if (cap > 0) dot = cap * std::tanh(dot / cap);
          s.push_back(dot);
          most = std::max(most, dot);
        }
        for (double& v : s) sum += v = std::exp(v - most);
        for (int32_t d = 0; d < dim; ++d) {
          double want = 0;
          for (int32_t p = begin; p < n; ++p)
            want += s[static_cast<size_t>(p - begin)] / sum *
                    c.values[static_cast<size_t>((h / group * n + p) * dim + d)];
          ASSERT_NEAR(first[static_cast<size_t>(h * dim + d)], want, 1e-5 * 20)
              << "keys " << begin << ".." << n << " dim " << dim;
        }
      }
    }
  }
}

TEST(Isa, NamesAreCheckedAndMissingLevelsSayWhatIsMissing) {
  EXPECT_EQ(choose_isa("sse9").status().code(), Code::kInvalidArgument);
  for (const IsaLevel* level : isa_levels()) {
    auto chosen = choose_isa(level->name);
    ASSERT_EQ(chosen.ok(), level->present());
    if (chosen.ok()) {
      EXPECT_EQ((*chosen)->name, level->name);
    } else {
      EXPECT_NE(chosen.status().message().find(level->needs), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace bora::cpu
