// The step kernels on a GPU against float64 (or the exact definition), and each row alone against the row in
// a batch with ==.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "backend/cuda/kernels/attention/device_harness.cuh"
#include "backend/cuda/kernels/common/device_info.h"
#include "backend/cuda/kernels/step/noise.h"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda::harness {
namespace {

using Half = std::vector<uint16_t>;

class StepDevice : public testing::Test {
 protected:
  void SetUp() override {
    const Result<DeviceInfo> info = query_device(0);
    if (!info.ok()) GTEST_SKIP() << info.status().message();
  }
};

Half random_half(size_t n, int seed, DType t, float size = 1) {
  Half out(n);
  for (size_t i = 0; i < n; ++i) out[i] = encode(content(seed, 0, i, 0, 0) * size, t);
  return out;
}

std::vector<float> random_logits(size_t n, int seed) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = content(seed, 1, i, 0, 0) * 3;
  return out;
}

void synchronize() { BORA_CUDA_OK(cudaDeviceSynchronize()); }

// |got - want| within one rounding of the element type and a little float32 noise.
void expect_near(const Half& got, const std::vector<double>& want, DType t, const char* what) {
  const double u = t == DType::kBF16 ? 0x1p-8 : 0x1p-11;
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double x = decode(got[i], t);
    ASSERT_LE(std::fabs(x - want[i]), std::fabs(want[i]) * (u + 2e-5) + 1e-6) << what << " at " << i;
  }
}

TEST_F(StepDevice, EmbedGatherAddActivation) {
  for (DType t : {DType::kBF16, DType::kF16}) {
    const int vocab = 50, dim = 328, tokens = 7;
    const Half table = random_half(vocab * dim, 11, t);
    const std::vector<int32_t> ids = {3, 49, 0, -1, 50, 7, 7};
    DeviceArray<uint16_t> dtable(table), out(Half(tokens * dim, 0x1234));
    DeviceArray<int32_t> dids(ids);
    check(launch_embed({t, dids.get(), dtable.get(), out.get(), dim, tokens, vocab, dim, 2.0f}, {}));
    synchronize();
    const Half got = out.host();
    for (int r = 0; r < tokens; ++r) {
      for (int d = 0; d < dim; ++d) {
        const uint16_t x = got[r * dim + d];
        if (ids[r] < 0)
          ASSERT_EQ(x, 0x1234);
        else if (ids[r] >= vocab)
          ASSERT_EQ(x, 0);
        else
          ASSERT_EQ(x, encode(2 * decode(table[ids[r] * dim + d], t), t));
      }
    }
    const std::vector<int32_t> rows = {6, 0, 2};
    DeviceArray<int32_t> drows(rows);
    DeviceArray<uint16_t> gathered(rows.size() * dim);
    check(launch_gather_rows({t, out.get(), drows.get(), gathered.get(), dim, dim, 3, dim}, {}));
    synchronize();
    const Half g = gathered.host();
    for (int r = 0; r < 3; ++r) ASSERT_EQ(0, std::memcmp(&g[r * dim], &got[rows[r] * dim], dim * 2));

    const Half a = random_half(tokens * dim, 12, t, 3), b = random_half(tokens * dim, 13, t);
    DeviceArray<uint16_t> da(a), db(b), sum(a.size());
    check(launch_add({t, da.get(), db.get(), sum.get(), tokens * dim}, {}));
    synchronize();
    const Half s = sum.host();
    for (size_t i = 0; i < s.size(); ++i) ASSERT_EQ(s[i], encode(decode(a[i], t) + decode(b[i], t), t));

    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    using Function = double (*)(double);
    const Function functions[] = {
        [](double x) { return x / (1 + std::exp(-x)); },
        [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); },
        [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); },
        [](double x) { return 1 / (1 + std::exp(-x)); },
        [](double x) { return std::max(x, 0.0); },
        [](double x) { return x > 0 ? x * x : 0.0; }};
    EXPECT_NEAR(sigmoid(0), 0.5, 1e-12);
    for (int kind = 0; kind < 6; ++kind) {
      for (bool gated : {true, false}) {
        ActivationArgs args{
            t,  static_cast<Activation>(kind), da.get(), gated ? db.get() : nullptr, sum.get(), dim, dim, dim, tokens,
            dim};
        check(launch_activation(args, {}));
        synchronize();
        std::vector<double> want(a.size());
        for (size_t i = 0; i < a.size(); ++i)
          want[i] = functions[kind](decode(a[i], t)) * (gated ? decode(b[i], t) : 1);
        expect_near(sum.host(), want, t, "activation");
      }
    }
  }
}

TEST_F(StepDevice, Norm) {
  for (DType t : {DType::kBF16, DType::kF16}) {
    for (int dim : {8, 64, 80, 128, 256, 576, 2048, 2304, 4096, 5120, 8192, 16384}) {
      for (int mode = 0; mode < 4; ++mode) {
        const bool plus_one = mode & 1, residual = mode & 2;
        const int tokens = 5;
        const Half x = random_half(tokens * dim, 20 + mode, t, 2), r = random_half(tokens * dim, 30, t),
                   w = random_half(dim, 31, t);
        DeviceArray<uint16_t> dx(x), dr(r), dw(w), out(x.size()), sum(x.size()), one(dim), one_sum(dim);
        NormArgs args;
        args.dtype = t, args.in = dx.get(), args.weight = dw.get(), args.out = out.get();
        if (residual) args.residual = dr.get(), args.residual_out = sum.get();
        args.in_stride = args.out_stride = args.residual_stride = dim, args.tokens = tokens, args.dim = dim;
        args.plus_one = plus_one;
        check(launch_norm(args, {}));
        NormArgs alone = args;
        alone.in = dx.get() + 3 * dim, alone.out = one.get(), alone.tokens = 1;
        if (residual) alone.residual = dr.get() + 3 * dim, alone.residual_out = one_sum.get();
        check(launch_norm(alone, {}));
        synchronize();
        std::vector<double> want(x.size());
        for (int row = 0; row < tokens; ++row) {
          double squares = 0;
          std::vector<double> v(dim);
          for (int d = 0; d < dim; ++d) {
            v[d] = decode(x[row * dim + d], t);
            if (residual) v[d] = decode(encode(v[d] + decode(r[row * dim + d], t), t), t);
            squares += v[d] * v[d];
          }
          for (int d = 0; d < dim; ++d) {
            want[row * dim + d] = v[d] / std::sqrt(squares / dim + 1e-5) * (decode(w[d], t) + (plus_one ? 1 : 0));
          }
        }
        const Half got = out.host(), got_one = one.host();
        expect_near(got, want, t, "norm");
        ASSERT_EQ(0, std::memcmp(&got[3 * dim], got_one.data(), dim * 2)) << "row alone, dim " << dim;
      }
    }
  }
}

TEST_F(StepDevice, RopeAppend) {
  for (DType t : {DType::kBF16, DType::kF16}) {
    for (int dim : {64, 80, 96, 128, 256}) {
      for (int mode = 0; mode < 8; ++mode) {
        const bool interleaved = mode & 1, norm = mode & 2, part = mode & 4;
        const int tokens = 5, qh = 6, kvh = 2, width = (qh + 2 * kvh) * dim, rot = part ? 32 : dim, blocks = 4,
                  bt = 16;
        const Half qkv = random_half(tokens * width, 40, t), wq = random_half(dim, 41, t),
                   wk = random_half(dim, 42, t);
        const std::vector<int32_t> pos = {0, 9, 100, 3, 55}, slot = {17, 63, 0, -1, 38};
        std::vector<float> table(128 * rot);
        for (int p = 0; p < 128; ++p) {
          for (int i = 0; i < rot / 2; ++i) {
            const double angle = p * std::pow(10000.0, -2.0 * i / rot);
            table[p * rot + i * 2] = std::cos(angle), table[p * rot + i * 2 + 1] = std::sin(angle);
          }
        }
        const int64_t block_bytes = kv_block_bytes(dim, bt, kvh);
        DeviceArray<uint16_t> dqkv(qkv), dwq(wq), dwk(wk), q(tokens * qh * dim),
            k(Half(blocks * block_bytes / 2, 0x7fff)), v(Half(blocks * block_bytes / 2, 0x7fff));
        DeviceArray<int32_t> dpos(pos), dslot(slot);
        DeviceArray<float> dtable(table);
        RopeAppendArgs a;
        a.dtype = t, a.qkv = dqkv.get(), a.qkv_stride = width, a.q_out = q.get(), a.q_stride = qh * dim;
        a.rope = dtable.get(), a.rot_dim = rot, a.interleaved = interleaved, a.pos = dpos.get(), a.slot = dslot.get();
        if (norm) a.q_norm = dwq.get(), a.k_norm = dwk.get();
        a.k = k.get(), a.v = v.get(), a.block_stride = block_bytes, a.block_tokens = bt;
        a.tokens = tokens, a.q_heads = qh, a.kv_heads = kvh, a.head_dim = dim;
        check(launch_rope_append(a, {}));
        synchronize();
        const Half gq = q.host(), gk = k.host(), gv = v.host();
        const double u = t == DType::kBF16 ? 0x1p-8 : 0x1p-11;
        size_t written = 0;
        for (int token = 0; token < tokens; ++token) {
          for (int head = 0; head < qh + 2 * kvh; ++head) {
            std::vector<double> x(dim), y(dim);
            double squares = 0;
            for (int d = 0; d < dim; ++d) {
              x[d] = decode(qkv[token * width + head * dim + d], t);
              squares += x[d] * x[d];
            }
            const bool value = head >= qh + kvh;
            if (norm && !value) {
              const Half& w = head < qh ? wq : wk;
              for (int d = 0; d < dim; ++d) x[d] *= decode(w[d], t) / std::sqrt(squares / dim + 1e-6);
            }
            y = x;
            for (int i = 0; i < rot / 2 && !value; ++i) {
              const int first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + rot / 2;
              const double c = table[pos[token] * rot + i * 2], s = table[pos[token] * rot + i * 2 + 1];
              y[first] = x[first] * c - x[second] * s, y[second] = x[second] * c + x[first] * s;
            }
            for (int d = 0; d < dim; ++d) {
              double got;
              if (head < qh) {
                got = decode(gq[(token * qh + head) * dim + d], t);
              } else {
                if (slot[token] < 0) continue;
                const int64_t at =
                    (slot[token] / bt * block_bytes + (head - qh - (value ? kvh : 0)) * kv_chunk_bytes(dim, bt) +
                     kv_offset(dim, slot[token] % bt, d)) /
                    2;
                got = decode((value ? gv : gk)[at], t);
                written += !value;
              }
              ASSERT_LE(std::fabs(got - y[d]), std::fabs(y[d]) * u + 1e-5)
                  << "dim " << dim << " mode " << mode << " head " << head;
            }
          }
        }
        ASSERT_EQ(static_cast<size_t>(std::count_if(gk.begin(), gk.end(), [](uint16_t x) { return x != 0x7fff; })),
                  written);
      }
    }
  }
}

TEST_F(StepDevice, Argmax) {
  for (int vocab : {1, 3, 5, 4096, 16385, 128256}) {
    const int rows = 9, stride = (vocab + 3) / 4 * 4;
    std::vector<float> logits = random_logits(rows * stride, vocab);
    for (int i = 0; i < vocab; ++i) logits[stride + i] = 1.0f;                                         // all equal: 0
    for (int i = 0; i < vocab; ++i) logits[2 * stride + i] = -std::numeric_limits<float>::infinity();  // nothing: 0
    logits[3 * stride + vocab / 2] = NAN;
    logits[4 * stride + vocab - 1] = logits[4 * stride + vocab / 2] = 1e30f;
    DeviceArray<float> d(logits);
    DeviceArray<int32_t> ids(rows), alone(1);
    DeviceArray<uint64_t> scratch(std::vector<uint64_t>(rows * 2, 0));
    for (int repeat = 0; repeat < 2; ++repeat)
      check(launch_argmax({d.get(), stride, rows, vocab, ids.get(), scratch.get()}, {}));
    synchronize();
    const std::vector<int32_t> got = ids.host();
    for (int r = 0; r < rows; ++r) {
      int want = 0;
      float best = -std::numeric_limits<float>::infinity();
      for (int i = 0; i < vocab; ++i) {
        if (logits[r * stride + i] > best) best = logits[r * stride + i], want = i;
      }
      ASSERT_EQ(got[r], want) << "vocab " << vocab << " row " << r;
    }
    check(launch_argmax({d.get() + 5 * stride, stride, 1, vocab, alone.get(), scratch.get()}, {}));
    synchronize();
    ASSERT_EQ(alone.host()[0], got[5]);
  }
}

// Kept set and winner by the definition; `margin` is how clear the decision was.
int reference_sample(const float* x, int vocab, const SampleParams& q, double* margin) {
  std::vector<int> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
  *margin = 1;
  if (q.temperature <= 0) return order[0];
  size_t kept = q.top_k > 0 ? std::min<size_t>(q.top_k, vocab) : vocab;
  std::vector<double> mass(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    mass[i] = std::round(std::exp((double(x[order[i]]) - x[order[0]]) / q.temperature) * 0x1p27);
    total += mass[i];
  }
  if (q.top_p < 1) {
    double before = 0;
    size_t n = 0;
    while (n < kept && (n == 0 || before < q.top_p * total)) before += mass[n++];
    *margin = std::min(*margin, std::fabs(before - q.top_p * total) / total);
    *margin = std::min(*margin, std::fabs(before - mass[n - 1] - q.top_p * total) / total);
    kept = n;
  }
  if (q.min_p > 0) {
    while (kept > 1 && mass[kept - 1] < q.min_p * 0x1p27) --kept;
    *margin = std::min(*margin, std::fabs(mass[kept - 1] - q.min_p * 0x1p27) / 0x1p27);
  }
  double best = -1e300, second = -1e300;
  int winner = order[0];
  for (size_t i = 0; i < kept; ++i) {
    const int id = order[i];
    const double u = noise_uniform(philox(q.seed, id / 4, q.position, q.choice).word[id % 4]);
    const double y = x[id] / double(q.temperature) - std::log(-std::log1p(-u));
    if (y > best)
      second = best, best = y, winner = id;
    else if (y > second)
      second = y;
  }
  if (std::isfinite(second)) *margin = std::min(*margin, best - second);
  return winner;
}

TEST_F(StepDevice, ArgmaxOfHalfLogitsAndWiden) {
  for (int vocab : {1, 3, 1000, 128256}) {
    const int rows = 5, stride = (vocab + 7) / 8 * 8;
    const Half logits = random_half(static_cast<size_t>(rows) * stride, 77, DType::kBF16, 3);
    DeviceArray<uint16_t> d(logits);
    DeviceArray<float> wide(logits.size());
    DeviceArray<int32_t> ids(rows);
    DeviceArray<uint64_t> scratch(std::vector<uint64_t>(rows * 2, 0));
    ArgmaxArgs a{d.get(), stride, rows, vocab, ids.get(), scratch.get(), LogitsType::kBF16};
    check(launch_argmax(a, {}));
    check(launch_widen({DType::kBF16, d.get(), wide.get(), static_cast<int64_t>(logits.size())}, {}));
    synchronize();
    const std::vector<int32_t> got = ids.host();
    const std::vector<float> same = wide.host();
    for (int r = 0; r < rows; ++r) {
      int best = 0;
      for (int i = 1; i < vocab; ++i) {
        if (decode(logits[r * stride + i], DType::kBF16) > decode(logits[r * stride + best], DType::kBF16)) best = i;
      }
      EXPECT_EQ(got[r], best) << "vocab " << vocab << " row " << r;
    }
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_EQ(same[i], decode(logits[i], DType::kBF16)) << i;
  }
}

TEST_F(StepDevice, Advance) {
  const std::vector<int32_t> table = {7, 3, 9, 4, 1, 8};  // [2, 3]
  DeviceArray<int32_t> dtable(table), pos(std::vector<int32_t>{14, 31}), len(2), slot(2);
  const auto step = [&] {
    check(launch_advance({pos.get(), len.get(), slot.get(), dtable.get(), 3, 2, 16}, {}));
    synchronize();
  };
  step();
  EXPECT_EQ(pos.host(), (std::vector<int32_t>{15, 32}));
  EXPECT_EQ(len.host(), (std::vector<int32_t>{16, 33}));
  EXPECT_EQ(slot.host(), (std::vector<int32_t>{7 * 16 + 15, 8 * 16}));
  step();
  EXPECT_EQ(slot.host(), (std::vector<int32_t>{3 * 16, 8 * 16 + 1}));
}

TEST_F(StepDevice, SampleAgainstTheDefinition) {
  int compared = 0, unclear = 0;
  for (int vocab : {1, 7, 1000, 128256}) {
    const int rows = 64, stride = (vocab + 3) / 4 * 4;
    std::vector<float> logits = random_logits(int64_t{rows} * stride, vocab + 1);
    for (int i = 0; i < vocab; ++i) logits[3 * stride + i] = 0.5f;  // all equal
    for (int i = 0; i < vocab; ++i) logits[4 * stride + i] = static_cast<float>(i % 3);
    for (int r = 16; r < 32; ++r) {
      for (int i = 0; i < vocab; ++i) logits[r * stride + i] *= 4;  // peaked, as models give
    }
    for (int i = 1; i < vocab; ++i) logits[5 * stride + i] = -std::numeric_limits<float>::infinity();
    std::vector<SampleParams> params(rows);
    for (int r = 0; r < rows; ++r) {
      SampleParams& q = params[r];
      q.temperature = r % 8 == 7 ? 0.0f : 0.3f + 0.1f * (r % 13);
      q.top_k = r % 5 == 0 ? 0 : r % 5 == 1 ? 1 : r % 5 == 2 ? 50 : r % 5 == 3 ? 1024 : 3000;
      q.top_p = r % 3 == 0 ? 1.0f : r % 3 == 1 ? 0.9f : 0.5f;
      q.min_p = r % 4 == 3 ? 0.05f : 0.0f;
      q.seed = 0x123456789abcdefull * (r + 1), q.choice = r % 2, q.position = r * 17;
    }
    DeviceArray<float> d(logits);
    DeviceArray<SampleParams> dparams(params);
    DeviceArray<int32_t> ids(rows), alone(1);
    DeviceArray<uint64_t> scratch(std::vector<uint64_t>(rows * 2, 0));
    check(launch_sample({d.get(), stride, rows, vocab, dparams.get(), ids.get(), scratch.get()}, {}));
    synchronize();
    const std::vector<int32_t> got = ids.host();
    for (int r = 0; r < rows; ++r) {
      double margin = 0;
      const int want = reference_sample(&logits[int64_t{r} * stride], vocab, params[r], &margin);
      ++compared;
      if (margin < 1e-5) {
        ++unclear;
        continue;
      }
      ASSERT_EQ(got[r], want) << "vocab " << vocab << " row " << r << " margin " << margin;
    }
    for (int r : {0, 2, 3, 9, 63}) {
      check(launch_sample(
          {d.get() + int64_t{r} * stride, stride, 1, vocab, dparams.get() + r, alone.get(), scratch.get()}, {}));
      synchronize();
      ASSERT_EQ(alone.host()[0], got[r]) << "row alone";
    }
  }
  EXPECT_LT(unclear * 10, compared);
}

TEST_F(StepDevice, SampleFollowsTheDistribution) {
  const int vocab = 8, rows = 40000;
  const float x[8] = {0, 1, 2, 3, -1, 2.5f, 0.3f, -5};
  for (int top_k : {0, 4}) {
    std::vector<float> logits(rows * vocab);
    std::vector<SampleParams> params(rows);
    for (int r = 0; r < rows; ++r) {
      std::copy(x, x + 8, &logits[r * vocab]);
      params[r].temperature = 0.8f, params[r].top_k = top_k, params[r].seed = 77, params[r].position = r;
    }
    DeviceArray<float> d(logits);
    DeviceArray<SampleParams> dparams(params);
    DeviceArray<int32_t> ids(rows);
    DeviceArray<uint64_t> scratch(std::vector<uint64_t>(rows * 2, 0));
    check(launch_sample({d.get(), vocab, rows, vocab, dparams.get(), ids.get(), scratch.get()}, {}));
    synchronize();
    std::vector<int> counts(vocab, 0);
    for (int32_t id : ids.host()) ++counts[id];
    std::vector<double> p(vocab);
    double total = 0, chi = 0;
    for (int i = 0; i < vocab; ++i)
      total += p[i] = top_k == 4 && !(i == 1 || i == 2 || i == 3 || i == 5) ? 0 : std::exp(x[i] / 0.8);
    for (int i = 0; i < vocab; ++i) {
      const double want = p[i] / total * rows;
      if (want == 0)
        ASSERT_EQ(counts[i], 0);
      else
        chi += (counts[i] - want) * (counts[i] - want) / want;
    }
    EXPECT_LT(chi, 30) << "7 degrees of freedom: 24.3 is exceeded once in 1000 seeds";
  }
}

TEST_F(StepDevice, Logprobs) {
  for (int vocab : {5, 1000, 128256}) {
    const int rows = 6, top = 20, stride = (vocab + 3) / 4 * 4;
    std::vector<float> logits = random_logits(int64_t{rows} * stride, vocab + 2);
    for (int i = 0; i < vocab; ++i) logits[stride + i] = 2.0f;
    const std::vector<int32_t> ids = {0, 1, 2, 3, 4, 4};
    DeviceArray<float> d(logits), chosen(rows), top_lp(rows * top);
    DeviceArray<int32_t> dids(ids), top_ids(rows * top);
    check(launch_logprobs({d.get(), stride, rows, vocab, top, dids.get(), chosen.get(), top_ids.get(), top_lp.get()},
                          {}));
    synchronize();
    const std::vector<float> gc = chosen.host(), gl = top_lp.host();
    const std::vector<int32_t> gi = top_ids.host();
    for (int r = 0; r < rows; ++r) {
      const float* x = &logits[int64_t{r} * stride];
      double sum = 0, best = *std::max_element(x, x + vocab);
      for (int i = 0; i < vocab; ++i) sum += std::exp(x[i] - best);
      const double lse = best + std::log(sum);
      ASSERT_NEAR(gc[r], x[ids[r]] - lse, 2e-5);
      std::vector<int> order(vocab);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
      for (int i = 0; i < top; ++i) {
        ASSERT_EQ(gi[r * top + i], i < vocab ? order[i] : -1) << "vocab " << vocab << " row " << r;
        if (i < vocab) ASSERT_NEAR(gl[r * top + i], x[order[i]] - lse, 2e-5);
      }
    }
  }
}

TEST_F(StepDevice, ProcessAndCount) {
  const int rows = 3, vocab = 1001, stride = 1004, words = (vocab + 31) / 32;
  const std::vector<float> logits = random_logits(rows * stride, 8);
  std::vector<SampleParams> params(rows);
  params[0].state = 1, params[0].repetition_penalty = 1.3f, params[0].presence_penalty = 0.5f,
  params[0].frequency_penalty = 0.25f;
  params[1].state = -1, params[1].repetition_penalty = 2;
  params[2].state = 0, params[2].frequency_penalty = -1;
  std::vector<uint32_t> seen(2 * words, 0), mask(rows * words, 0xffffffffu);
  std::vector<int32_t> counts(2 * vocab, 0);
  for (int i = 0; i < vocab; i += 7) seen[words + i / 32] |= 1u << (i % 32), counts[vocab + i] = i % 4, counts[i] = 1;
  mask[2 * words + 3] = 0x0f0f0f0f;
  const std::vector<BiasEntry> bias = {{0, 5, 1.5f}, {2, 100, 50.0f}, {1, 1000, -2.0f}, {7, 0, 9.0f}, {0, -3, 9.0f}};
  DeviceArray<float> d(logits);
  DeviceArray<SampleParams> dparams(params);
  DeviceArray<uint32_t> dseen(seen), dmask(mask);
  DeviceArray<int32_t> dcounts(counts), ids(std::vector<int32_t>{8, 9, -1});
  DeviceArray<BiasEntry> dbias(bias);
  ProcessArgs a;
  a.logits = d.get(), a.row_stride = stride, a.rows = rows, a.vocab = vocab, a.softcap = 30, a.params = dparams.get();
  a.seen = dseen.get(), a.counts = dcounts.get(), a.bias = dbias.get(), a.bias_count = 5, a.mask = dmask.get();
  check(launch_process_logits(a, {}));
  check(launch_count_tokens({ids.get(), dparams.get(), dseen.get(), dcounts.get(), rows, vocab}, {}));
  synchronize();
  const std::vector<float> got = d.host();
  for (int r = 0; r < rows; ++r) {
    const SampleParams& q = params[r];
    for (int i = 0; i < vocab; ++i) {
      double x = 30 * std::tanh(logits[r * stride + i] / 30);
      if (q.state >= 0) {
        if (q.repetition_penalty != 1 && (seen[q.state * words + i / 32] >> (i % 32) & 1)) {
          x = x > 0 ? x / q.repetition_penalty : x * q.repetition_penalty;
        }
        const int n = counts[q.state * vocab + i];
        if (n > 0) x -= q.frequency_penalty * n + q.presence_penalty;
      }
      for (const BiasEntry& b : bias) x += b.row == r && b.token == i ? b.value : 0;
      if (!(mask[r * words + i / 32] >> (i % 32) & 1)) x = -std::numeric_limits<double>::infinity();
      if (std::isinf(x))
        ASSERT_EQ(got[r * stride + i], x);
      else
        ASSERT_NEAR(got[r * stride + i], x, 2e-5 * (1 + std::fabs(x)));
    }
  }
  EXPECT_EQ(dcounts.host()[vocab + 8], counts[vocab + 8] + 1);
  EXPECT_EQ(dseen.host()[words], seen[words] | 1u << 8);
}

TEST(StepDeviceArguments, BadOnesLaunchNothing) {
  alignas(16) char place[32] = {};
  EXPECT_EQ(launch_embed({}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(
      launch_argmax({reinterpret_cast<float*>(place), 4, 0, 4, reinterpret_cast<int32_t*>(place), place}, {}).code(),
      Code::kInvalidArgument);
  NormArgs n;
  n.in = n.out = place, n.dim = 12, n.tokens = 1, n.in_stride = n.out_stride = 16;
  EXPECT_EQ(launch_norm(n, {}).code(), Code::kInvalidArgument);
  n.dim = 16, n.in = place + 2;
  EXPECT_EQ(launch_norm(n, {}).code(), Code::kInvalidArgument);
  n.in = place, n.dtype = DType::kF32;
  EXPECT_EQ(launch_norm(n, {}).code(), Code::kUnimplemented);
  EXPECT_EQ(launch_logprobs({reinterpret_cast<float*>(place), 4, 1, 4, 65}, {}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace bora::cuda::harness
