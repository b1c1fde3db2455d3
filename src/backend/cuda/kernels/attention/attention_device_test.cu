// Attention on a GPU: every form against float64, and every form against every other with ==.
#include <gtest/gtest.h>

#include "backend/cuda/kernels/attention/device_harness.cuh"
#include "backend/cuda/kernels/common/device_info.h"

namespace bora::cuda::harness {
namespace {

void report(const std::string& name, bool ok, const std::string& detail = "") {
  EXPECT_TRUE(ok) << name << " " << detail;
}

std::string label(const Model& m) {
  return std::string(dtype_name(m.dtype)) + " d" + std::to_string(m.head_dim) + " g" +
         std::to_string(m.q_heads / m.kv_heads) + (m.window > 0 ? " window" : "") +
         (m.softcap > 0 ? " softcap" : "") + (m.sinks ? " sinks" : "") + (m.causal ? "" : " full") +
         (m.block_tokens != 16 ? " block" + std::to_string(m.block_tokens) : "");
}

// Largest |out - ref| over its bound: 2 u A + 2^-14 A (1 + scores) + 2^-24 sum|v| / l, A = sum p |v| / l, u =
// the unit roundoff of the dtype (P and the output are rounded once each).
double worst_error(const Model& m, const Work& w, const std::vector<uint16_t>& out, int row) {
  const double u = m.dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
  double worst = 0;
  const int pos = w.pos + row;
  const int end = m.causal ? pos + 1 : w.kv_len, begin = m.window > 0 ? std::max(0, pos - m.window + 1) : 0;
  for (int h = 0; h < m.q_heads; ++h) {
    const int kvh = h / (m.q_heads / m.kv_heads);
    std::vector<double> s(end - begin), q(m.head_dim);
    for (int d = 0; d < m.head_dim; ++d) q[d] = decode(encode(content(3, w.id, pos, h, d), m.dtype), m.dtype);
    double top = m.sinks ? 0.5 * (h % 5) - 1 : -1e300, size = 0;
    for (int t = begin; t < end; ++t) {
      double x = 0, y = 0;
      for (int d = 0; d < m.head_dim; ++d) {
        const double k = decode(encode(content(1, w.id, t, kvh, d), m.dtype), m.dtype);
        x += q[d] * k;
        y += std::fabs(q[d] * k);
      }
      x *= m.scale;
      size = std::max(size, y * m.scale);
      if (m.softcap > 0) x = m.softcap * std::tanh(x / m.softcap);
      s[t - begin] = x;
      top = std::max(top, x);
    }
    double l = m.sinks ? std::exp(0.5 * (h % 5) - 1 - top) : 0;
    std::vector<double> o(m.head_dim), a(m.head_dim), v1(m.head_dim);
    for (int t = begin; t < end; ++t) {
      const double e = std::exp(s[t - begin] - top);
      l += e;
      for (int d = 0; d < m.head_dim; ++d) {
        const double v = decode(encode(content(2, w.id, t, kvh, d), m.dtype), m.dtype);
        o[d] += e * v, a[d] += e * std::fabs(v), v1[d] += std::fabs(v);
      }
    }
    for (int d = 0; d < m.head_dim; ++d) {
      const double got = decode(out[(int64_t{row} * m.q_heads + h) * m.head_dim + d], m.dtype);
      const double bound = (2 * u + 0x1p-14 * (1 + size)) * a[d] / l + 0x1p-24 * v1[d] / l + 1e-30;
      const double error = std::fabs(got - o[d] / l) / bound;
      if (!(error <= worst)) worst = std::isnan(error) ? 1e9 : error;
    }
  }
  return worst;
}

bool same_rows(const Model& m, const std::vector<uint16_t>& a, int row_a, const std::vector<uint16_t>& b, int row_b,
               int rows) {
  const size_t n = int64_t{m.q_heads} * m.head_dim;
  return std::memcmp(a.data() + row_a * n, b.data() + row_b * n, rows * n * 2) == 0;
}

void accuracy(const Model& m, Form form, int length) {
  const Work w{5, length, 0, length};
  const std::vector<uint16_t> out = run(m, {w}, form, 264);
  double worst = 0;
  for (int row : {0, 1, 15, 63, length / 2, length - 2, length - 1}) {
    if (row >= 0 && row < length) worst = std::max(worst, worst_error(m, w, out, row));
  }
  report("float64 " + label(m) + " " + form_name(form) + " " + std::to_string(length), worst <= 1,
         "error/bound " + std::to_string(worst));
  testing::Test::RecordProperty(std::string(form_name(form)) + "_" + std::to_string(length), std::to_string(worst));
}

// All ways to come by the rows of one sequence of `length` tokens.
void equality(const Model& m, int length, bool prefill, int border_step = 16) {
  const std::vector<uint16_t> want = run(m, {{9, length, 0, length}}, Form::kTile16, 264);
  const std::string name = "== " + label(m) + " " + std::to_string(length) + " ";
  std::vector<Form> forms = {Form::kTileWide};
  if (prefill) forms.push_back(Form::kPrefill);
  for (Form f : forms)
    report(name + form_name(f), same_rows(m, want, 0, run(m, {{9, length, 0, length}}, f, 264), 0, length));
  Model portable = m;
  portable.sm = 80;
  report(name + "portable",
         same_rows(m, want, 0, run(portable, {{9, length, 0, length}}, Form::kTile16, 264), 0, length));
  for (int workers : {1, 7, 132}) {
    report(name + "workers " + std::to_string(workers),
           same_rows(m, want, 0, run(m, {{9, length, 0, length}}, Form::kTile16, workers), 0, length));
  }
  Model wide = m;
  wide.block_tokens = 64;
  report(name + "blocks of 64",
         same_rows(m, want, 0, run(wide, {{9, length, 0, length}}, Form::kTile16, 264), 0, length));
  // Decode: one token; verification: up to five.
  for (int pos : {0, 15, 16, 254, 255, 256, 257, 511, 512, length - 1}) {
    if (pos < 0 || pos >= length) continue;
    report(name + "portable decode " + std::to_string(pos),
           same_rows(m, want, pos, run(portable, {{9, pos + 1, pos, 1}}, Form::kTile16, 264), 0, 1));
    report(name + "decode " + std::to_string(pos),
           same_rows(m, want, pos, run(m, {{9, pos + 1, pos, 1}}, Form::kTile16, 264), 0, 1));
    const int n = std::min(5, length - pos);
    report(name + "verify " + std::to_string(pos),
           same_rows(m, want, pos, run(m, {{9, pos + n, pos, n}}, Form::kTile16, 264), 0, n));
  }
  // Among 63 others of many lengths, decode and mixed with a chunk.
  std::vector<Work> many;
  for (int i = 0; i < 64; ++i) {
    const int other = 1 + (i * 37) % 700;
    if (i == 40) {
      many.push_back({9, length, length - 1, 1});
    } else {
      many.push_back({100 + i, other, other - 1, 1});
    }
  }
  report(name + "among 63", same_rows(m, want, length - 1, run(m, many, Form::kTile16, 264), 40, 1));
  many[41] = {150, 333, 200, 133};
  report(name + "among 63, mixed", same_rows(m, want, length - 1, run(m, many, Form::kTileWide, 264), 40, 1));
  // A plan made before the step in front of this one was confirmed.
  for (int slack : {1, 7, 300}) {
    report(name + "planned further by " + std::to_string(slack),
           same_rows(m, want, length - 1, run(m, {{9, length, length - 1, 1, {}, {}, slack}}, Form::kTile16, 264), 0,
                     1));
    if (prefill) {
      report(name + "prefill planned further by " + std::to_string(slack),
             same_rows(m, want, 0, run(m, {{9, length, 0, length, {}, {}, slack}}, Form::kPrefill, 264), 0, length));
    }
  }
  // Chunks: one border at every multiple of 16, and all borders at once.
  for (Form f : {Form::kTile16, Form::kTileWide, Form::kPrefill}) {
    if (f == Form::kPrefill && !prefill) continue;
    bool ok = true;
    for (int border = 16; border < length; border += border_step) {
      ok = ok &&
           same_rows(m, want, border, run(m, {{9, length, border, length - border}}, f, 264), 0, length - border);
      ok = ok && same_rows(m, want, border - 16, run(m, {{9, border, border - 16, 16}}, f, 264), 0, 16);
    }
    report(name + "chunked at every 16, " + form_name(f), ok);
  }
}

// Rows of a tree have the bits that their path has as a chain, by decode rows and by verification.
void tree(const Model& m, int base) {
  const std::vector<int> parent = {-1, 0, 0, 2, 1, 3, 2};
  const int n = static_cast<int>(parent.size());
  std::vector<int> all(n);
  for (int i = 0; i < n; ++i) all[i] = i;
  const std::vector<uint16_t> got = run(m, {{21, base + n, base, n, parent, all}}, Form::kTile16, 264);
  bool ok = true;
  for (int row = 0; row < n; ++row) {
    std::vector<int> path;
    for (int r = row; r >= 0; r = parent[r]) path.insert(path.begin(), r);
    const int depth = static_cast<int>(path.size());
    const std::vector<uint16_t> chain = run(m, {{21, base + depth, base, depth, {}, path}}, Form::kTile16, 264);
    ok = ok && same_rows(m, chain, depth - 1, got, row, 1);
    Model portable = m;
    portable.sm = 80;
    if (row == 5)
      ok = ok && same_rows(m, chain, depth - 1,
                           run(portable, {{21, base + n, base, n, parent, all}}, Form::kTile16, 264), row, 1);
  }
  report("== tree " + label(m) + " base " + std::to_string(base), ok);
}

class AttentionDevice : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  void SetUp() override {
    const Result<DeviceInfo> info = query_device(0);
    if (!info.ok()) GTEST_SKIP() << info.status().message();
    if (!info->sm90()) m_.sm = 80;
    m_.dtype = std::get<0>(GetParam()), m_.head_dim = std::get<1>(GetParam());
    m_.scale = 1 / std::sqrt(static_cast<float>(m_.head_dim));
    prefill_ = attention_prefill_rows(info->major * 10 + info->minor, m_.head_dim) > 0;
    odd_ = m_;
    odd_.softcap = 20, odd_.window = 100, odd_.sinks = true, odd_.q_heads = 7, odd_.kv_heads = 1;
  }
  void forms(const Model& m, int length) {
    accuracy(m, Form::kTile16, length);
    accuracy(m, Form::kTileWide, length);
    if (prefill_) accuracy(m, Form::kPrefill, length);
  }
  Model m_, odd_;
  bool prefill_ = false;
};

TEST_P(AttentionDevice, Float64) {
  for (int n : {1, 255, 256, 257, 1000}) forms(m_, n);
  forms(odd_, 300);
  Model full = m_;
  full.causal = false, full.q_heads = 2;
  forms(full, 300);
}

TEST_P(AttentionDevice, Equality) {
  for (int n : {1, 255, 256, 257, 1000}) {
    if (m_.head_dim == 128 || n == 257 || n == 1) equality(m_, n, prefill_);
  }
}

TEST_P(AttentionDevice, EqualityWindowSoftcapSinks) { equality(odd_, 600, prefill_); }

TEST_P(AttentionDevice, Tree) {
  for (int base : {5, 254, 300}) tree(m_, base);
}

// What the sanitizers run.
TEST_P(AttentionDevice, SmallShapes) {
  forms(m_, 257);
  equality(odd_, 130, prefill_, 112);
  tree(m_, 5);
}

TEST(AttentionDeviceArguments, BadOnesLaunchNothing) {
  AttentionArgs a;
  a.sm_version = 90, a.head_dim = 128, a.q_heads = 7, a.kv_heads = 2;
  EXPECT_EQ(launch_attention_tiles(a, {}).code(), Code::kInvalidArgument);
  a.q_heads = 8;
  EXPECT_EQ(launch_attention_tiles(a, {}).code(), Code::kInvalidArgument);  // null pointers
  alignas(16) char place[16] = {};
  a.q = a.k = a.v = place, a.out = place, a.partial = reinterpret_cast<float*>(place);
  a.table = a.kv_len = a.pos = a.counts = reinterpret_cast<int32_t*>(place);
  a.taken = reinterpret_cast<uint32_t*>(place);
  a.segments = reinterpret_cast<AttentionSegment*>(place), a.workers = 1;
  a.block_tokens = 24;
  EXPECT_EQ(launch_attention_tiles(a, {}).code(), Code::kInvalidArgument);
  a.block_tokens = 16, a.head_dim = 72;
  EXPECT_EQ(launch_attention_tiles(a, {}).code(), Code::kUnimplemented);
  a.head_dim = 128, a.q = place + 2;
  EXPECT_EQ(launch_attention_tiles(a, {}).code(), Code::kInvalidArgument);
  a.q = place, a.sm_version = 75;
  EXPECT_EQ(launch_attention_tiles(a, {}).code(), Code::kUnimplemented);
  EXPECT_EQ(launch_attention_prefill(a, {}).code(), Code::kInvalidArgument);  // no blocks
}

INSTANTIATE_TEST_SUITE_P(All, AttentionDevice,
                         testing::Combine(testing::Values(DType::kBF16, DType::kF16),
                                          testing::Values(64, 80, 96, 128, 256)),
                         [](const auto& info) {
                           return std::string(dtype_name(std::get<0>(info.param))) + "_d" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace bora::cuda::harness
