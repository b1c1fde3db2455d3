// Attention on a GPU: every form against float64, and every form against every other with ==.
// Prints one line a case; exit 1 if any failed, 77 if there is no device.
#include "backend/cuda/kernels/attention/device_harness.cuh"

namespace bora::cuda::harness {
namespace {

int passed = 0, failed = 0;
bool small = false;
std::string only_dtype;
int only_dim = 0;

void report(const std::string& name, bool ok, const std::string& detail = "") {
  (ok ? passed : failed) += 1;
  if (!ok || detail.size() > 0) std::printf("%s %s %s\n", ok ? "ok  " : "FAIL", name.c_str(), detail.c_str());
}

std::string label(const Model& m) {
  return std::string(dtype_name(m.dtype)) + " d" + std::to_string(m.head_dim) + " g" + std::to_string(m.q_heads / m.kv_heads) +
         (m.window > 0 ? " window" : "") + (m.softcap > 0 ? " softcap" : "") + (m.sinks ? " sinks" : "") +
         (m.causal ? "" : " full") + (m.block_tokens != 16 ? " block" + std::to_string(m.block_tokens) : "");
}

// Largest |out - ref| over its bound: 2 u A + 2^-14 A (1 + scores) + 2^-24 sum|v| / l, A = sum p |v| / l, u = the unit
// roundoff of the dtype (P and the output are rounded once each).
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

bool same_rows(const Model& m, const std::vector<uint16_t>& a, int row_a, const std::vector<uint16_t>& b, int row_b, int rows) {
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
}

// All ways to come by the rows of one sequence of `length` tokens.
void equality(const Model& m, int length, bool prefill) {
  const std::vector<uint16_t> want = run(m, {{9, length, 0, length}}, Form::kTile16, 264);
  const std::string name = "== " + label(m) + " " + std::to_string(length) + " ";
  std::vector<Form> forms = {Form::kTileWide};
  if (prefill) forms.push_back(Form::kPrefill);
  for (Form f : forms) report(name + form_name(f), same_rows(m, want, 0, run(m, {{9, length, 0, length}}, f, 264), 0, length));
  Model portable = m;
  portable.sm = 80;
  report(name + "portable", same_rows(m, want, 0, run(portable, {{9, length, 0, length}}, Form::kTile16, 264), 0, length));
  for (int workers : {1, 7, 132}) {
    report(name + "workers " + std::to_string(workers),
           same_rows(m, want, 0, run(m, {{9, length, 0, length}}, Form::kTile16, workers), 0, length));
  }
  Model wide = m;
  wide.block_tokens = 64;
  report(name + "blocks of 64", same_rows(m, want, 0, run(wide, {{9, length, 0, length}}, Form::kTile16, 264), 0, length));
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
  // Chunks: one border at every multiple of 16, and all borders at once.
  for (Form f : {Form::kTile16, Form::kTileWide, Form::kPrefill}) {
    if (f == Form::kPrefill && !prefill) continue;
    bool ok = true;
    for (int border = 16; border < length; border += small ? 112 : 16) {
      ok = ok && same_rows(m, want, border, run(m, {{9, length, border, length - border}}, f, 264), 0, length - border);
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
    if (row == 5) ok = ok && same_rows(m, chain, depth - 1, run(portable, {{21, base + n, base, n, parent, all}}, Form::kTile16, 264), row, 1);
  }
  report("== tree " + label(m) + " base " + std::to_string(base), ok);
}

int run_all() {
  const std::vector<int> lengths = small ? std::vector<int>{1, 257} : std::vector<int>{1, 255, 256, 257, 1000};
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    for (int d : {64, 80, 96, 128, 256}) {
      if (only_dim != 0 && (only_dim != d || only_dtype != dtype_name(dtype))) continue;
      Model m;
      m.dtype = dtype, m.head_dim = d, m.scale = 1 / std::sqrt(static_cast<float>(d));
      const bool prefill = attention_prefill_rows(90, d) > 0;
      for (int n : lengths) {
        accuracy(m, Form::kTile16, n);
        accuracy(m, Form::kTileWide, n);
        if (prefill) accuracy(m, Form::kPrefill, n);
      }
      Model odd = m;
      odd.softcap = 20, odd.window = 100, odd.sinks = true, odd.q_heads = 7, odd.kv_heads = 1;
      accuracy(odd, Form::kTile16, 300);
      if (prefill) accuracy(odd, Form::kPrefill, 300);
      Model full = m;
      full.causal = false, full.q_heads = 2;
      accuracy(full, Form::kTile16, 300);
      if (prefill) accuracy(full, Form::kPrefill, 300);
      for (int n : lengths) {
        if (d == 128 || n == 257 || n == 1) equality(m, n, prefill);
      }
      if (!small) {
        equality(odd, 600, prefill);
              }
      tree(m, 5);
      tree(m, 254);
      tree(m, 300);
    }
  }
  std::printf("attention: %d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace bora::cuda::harness

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("attention device test: skipped, no CUDA device\n");
    return 77;
  }
  bora::cuda::harness::small = argc > 3;
  // bf16 128 [--small]: one element type and head size, so that several processes share the work.
  if (argc > 2) bora::cuda::harness::only_dtype = argv[1], bora::cuda::harness::only_dim = std::atoi(argv[2]);
  return bora::cuda::harness::run_all();
}
