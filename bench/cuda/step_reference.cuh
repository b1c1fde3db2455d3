// The step in float64 on the host, from the packed weights unpacked again: 16-bit roundings where the kernels round
// their outputs, everything else exact. Decodes the tokens that the device chose and compares logits.
#pragma once

#include <cuda_bf16.h>

#include <cstring>

#include "backend/cuda/kernels/linear/pack.h"
#include "step_model.cuh"

namespace bora::cuda::bench {

using Row = std::vector<double>;

inline double of_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
inline double rounded(double x) { return __bfloat162float(__float2bfloat16(static_cast<float>(x))); }
inline double of_e4m3(uint8_t c) {
  const int e = c >> 3 & 15, m = c & 7;
  const double size = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
  return c & 0x80 ? -size : size;
}

struct HostLinear {
  int64_t n = 0, k = 0;
  std::vector<float> w;  // [n, k] with every scale
  Row bias;

  HostLinear(const LinearSet& set, int32_t layer) : n(set.weights.n), k(set.weights.k) {
    const LinearFormat& f = set.weights.format;
    const std::vector<uint8_t> all = set.packed.host<uint8_t>();
    const std::span<const uint8_t> packed(all.data() + layer * set.layer_bytes, static_cast<size_t>(set.layer_bytes));
    const LinearShape shape = linear_shape(f, n, k);
    const std::vector<float> scale =
        set.scale.get() != nullptr ? set.scale.host<float>() : std::vector<float>(static_cast<size_t>(n), 1.f);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < k; ++c) {
        const PackedWeight p = unpack_one(f, shape, packed, r, c);
        double v = p.code - p.zero;
        if (f.codes == Codes::k16) v = of_bf16(p.code);
        if (f.codes == Codes::kFp8) v = of_e4m3(static_cast<uint8_t>(p.code));
        if (f.codes == Codes::kInt8) v = static_cast<int8_t>(p.code);
        w.push_back(static_cast<float>(v * static_cast<double>(p.scale) *
                                       static_cast<double>(scale[static_cast<size_t>(r)])));
      }
    }
    if (set.bias.get() == nullptr) return;
    for (const uint16_t b : set.bias.host<uint16_t>()) bias.push_back(of_bf16(b));
  }
  Row times(const Row& x) const {
    Row y(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(r)];
      for (int64_t c = 0; c < k; ++c)
        sum += static_cast<double>(w[static_cast<size_t>(r * k + c)]) * x[static_cast<size_t>(c)];
      y[static_cast<size_t>(r)] = rounded(sum);
    }
    return y;
  }
};

// Sequence 0 of a batch of one, with a cache of its own.
class Reference {
 public:
  // `mutant`: the rotation is left out, which the gate must notice.
  Reference(const Batch& batch, bool mutant) : b_(batch), s_(batch.model.shape), mutant_(mutant) {
    for (int32_t l = 0; l < s_.layers; ++l) {
      qkv_.emplace_back(b_.model.qkv, l), o_.emplace_back(b_.model.o, l);
      up_.emplace_back(b_.model.gate_up, l), down_.emplace_back(b_.model.down, l);
      keys_.push_back(load(b_.k[static_cast<size_t>(l)])), values_.push_back(load(b_.v[static_cast<size_t>(l)]));
    }
    head_.emplace_back(b_.model.head, 0);
    embedding_ = b_.model.embedding.host<uint16_t>(), norms_ = b_.model.norms.host<uint16_t>();
    rope_ = b_.model.rope.host<float>();
  }

  Row step(int32_t token, int32_t position) {
    Row h(static_cast<size_t>(s_.dim));
    for (int32_t i = 0; i < s_.dim; ++i)
      h[static_cast<size_t>(i)] = of_bf16(embedding_[static_cast<size_t>(token) * s_.dim + i]);
    for (size_t l = 0; l < static_cast<size_t>(s_.layers); ++l) {
      add(h, o_[l].times(attend(qkv_[l].times(norm(h, 2 * l)), l, position)));
      const Row gu = up_[l].times(norm(h, 2 * l + 1));
      Row f(static_cast<size_t>(s_.ffn));
      for (size_t j = 0; j < f.size(); ++j) {
        const double g = gu[j / 8 * 16 + j % 8], u = gu[j / 8 * 16 + j % 8 + 8];
        f[j] = rounded(g / (1 + std::exp(-g)) * u);
      }
      add(h, down_[l].times(f));
    }
    return head_[0].times(norm(h, 2 * static_cast<size_t>(s_.layers)));
  }

 private:
  std::vector<Row> load(const Memory& cache) const {  // [position][kv heads * head_dim]
    const std::vector<uint16_t> all = cache.host<uint16_t>();
    std::vector<Row> out;
    for (int32_t t = 0; t + 1 < b_.context; ++t) {
      Row row;
      for (int32_t i = 0; i < s_.kv_heads * s_.head_dim; ++i) {
        const int64_t at = b_.table_host[static_cast<size_t>(t / 16)] * b_.block_bytes() +
                           i / s_.head_dim * kv_chunk_bytes(s_.head_dim, 16) +
                           kv_offset(s_.head_dim, t % 16, i % s_.head_dim);
        row.push_back(of_bf16(all[static_cast<size_t>(at / 2)]));
      }
      out.push_back(row);
    }
    return out;
  }
  static void add(Row& h, const Row& y) {
    for (size_t i = 0; i < h.size(); ++i) h[i] = rounded(h[i] + y[i]);
  }
  Row norm(const Row& h, size_t which) const {
    double sum = 0;
    for (const double x : h) sum += x * x;
    const double factor = 1 / std::sqrt(sum / static_cast<double>(h.size()) + 1e-5);
    Row out;
    for (size_t i = 0; i < h.size(); ++i)
      out.push_back(rounded(h[i] * factor * of_bf16(norms_[which * h.size() + i])));
    return out;
  }
  void rotate(double* x, int32_t position) const {
    const int32_t half = s_.head_dim / 2;
    for (int32_t i = 0; i < half && !mutant_; ++i) {
      const float* t = &rope_[(static_cast<size_t>(position) * half + i) * 2];
      const double a = x[i], b = x[i + half], c = static_cast<double>(t[0]), s = static_cast<double>(t[1]);
      x[i] = rounded(a * c - b * s), x[i + half] = rounded(b * c + a * s);
    }
  }
  Row attend(Row qkv, size_t layer, int32_t position) {
    const int32_t d = s_.head_dim, group = s_.q_heads / s_.kv_heads;
    for (int32_t head = 0; head < s_.q_heads + s_.kv_heads; ++head)
      rotate(&qkv[static_cast<size_t>(head) * d], position);
    const auto k0 = qkv.begin() + s_.q_heads * d, v0 = k0 + s_.kv_heads * d;
    keys_[layer].emplace_back(k0, v0), values_[layer].emplace_back(v0, qkv.end());
    Row out(static_cast<size_t>(s_.q_heads) * d);
    for (int32_t head = 0; head < s_.q_heads; ++head) {
      const size_t kv = static_cast<size_t>(head / group) * d;
      Row p;
      double top = -1e300, total = 0;
      for (const Row& key : keys_[layer]) {
        double dot = 0;
        for (int32_t i = 0; i < d; ++i) dot += qkv[static_cast<size_t>(head * d + i)] * key[kv + i];
        p.push_back(dot / std::sqrt(static_cast<double>(d)));
        top = std::max(top, p.back());
      }
      for (double& x : p) total += x = std::exp(x - top);
      for (int32_t i = 0; i < d; ++i) {
        double sum = 0;
        for (size_t t = 0; t < p.size(); ++t) sum += p[t] * values_[layer][t][kv + i];
        out[static_cast<size_t>(head * d + i)] = rounded(sum / total);
      }
    }
    return out;
  }

  const Batch& b_;
  const ModelShape& s_;
  bool mutant_;
  std::vector<HostLinear> qkv_, o_, up_, down_, head_;
  std::vector<std::vector<Row>> keys_, values_;
  std::vector<uint16_t> embedding_, norms_;
  std::vector<float> rope_;
};

}  // namespace bora::cuda::bench
