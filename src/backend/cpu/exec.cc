#include "backend/cpu/exec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "ir/ops.h"

namespace bora::cpu {
namespace {

// Rows r with r % workers == worker.
template <typename Fn>
void my_rows(const Context& c, int64_t rows, int32_t worker, Fn f) {
  for (int64_t r = worker; r < rows; r += c.team->size()) f(r);
}

int64_t rows_of(const Context& c, ir::Sym sym) { return sym == ir::Sym::kRows ? c.rows : c.tokens; }

class Embed : public Exec {
 public:
  Embed(quant::CodedMatrix table, View out) : table_(std::move(table)), out_(out) {}
  void run(Context& c, int32_t worker) override {
    my_rows(c, c.tokens, worker,
            [&](int64_t r) { table_.scheme->decode(table_, c.ids[r], c.ids[r] + 1, out_.row(r)); });
  }

 private:
  quant::CodedMatrix table_;  // rows are decoded from the file: a step touches few of them
  View out_;
};

class Linear : public Exec {
 public:
  struct Matrix {
    Packed packed;
    float* out = nullptr;
    int64_t stride = 0;
    const float* bias = nullptr;
  };
  Linear(View in, ir::Sym sym, std::vector<Matrix> matrices, double softcap)
      : in_(in), sym_(sym), matrices_(std::move(matrices)), softcap_(static_cast<float>(softcap)) {}

  void run(Context& c, int32_t worker) override {
    const int64_t rows = rows_of(c, sym_);
    if (rows == 0) return;
    QuantRows* q = nullptr;
    for (const Matrix& m : matrices_) {
      const int64_t share = (m.packed.tiles + c.team->size() - 1) / c.team->size();
      const int64_t first = std::min<int64_t>(m.packed.tiles, worker * share);
      const int64_t last = std::min<int64_t>(m.packed.tiles, first + share);
      if (m.packed.recipe->bits >= 16) {
        c.kernels->linear_f(m.packed, in_.data, in_.stride, rows, first, last, m.out, m.stride);
      } else {
        if (q == nullptr) q = quantize(c, worker, rows);
        c.kernels->linear_q(m.packed, *q, first, last, m.out, m.stride);
      }
      finish(m, first * kTileRows, std::min(m.packed.rows, last * kTileRows), rows);
    }
  }

 private:
  // Few rows: every worker quantizes all of them for itself, which is cheaper than meeting.
  QuantRows* quantize(Context& c, int32_t worker, int64_t rows) {
    const bool own = rows <= 2;
    QuantRows* q = own ? &c.quant[static_cast<size_t>(1 + worker)] : &c.quant[0];
    if (own || worker == 0) {
      q->rows = rows;
      q->cols = in_.n;
    }
    if (own) {
      for (int64_t r = 0; r < rows; ++r) c.kernels->quantize(in_.data, in_.stride, r, q);
      return q;
    }
    c.team->barrier();
    my_rows(c, rows, worker, [&](int64_t r) { c.kernels->quantize(in_.data, in_.stride, r, q); });
    c.team->barrier();
    return q;
  }
  void finish(const Matrix& m, int64_t first, int64_t last, int64_t rows) const {
    if (m.bias == nullptr && !(softcap_ > 0)) return;
    for (int64_t r = 0; r < rows; ++r) {
      float* out = m.out + r * m.stride;
      for (int64_t i = first; i < last; ++i) {
        if (m.bias != nullptr) out[i] += m.bias[i];
        if (softcap_ > 0) out[i] = softcap_ * std::tanh(out[i] / softcap_);
      }
    }
  }

  View in_;
  ir::Sym sym_;
  std::vector<Matrix> matrices_;
  float softcap_;
};

class Norm : public Exec {
 public:
  Norm(View in, View out, ir::Sym sym, const float* weight, const ir::Attrs& a)
      : in_(in),
        out_(out),
        sym_(sym),
        weight_(weight),
        plus_(static_cast<float>(a.get_double("plus", 0))),
        eps_(static_cast<float>(a.get_double("eps", 0))),
        group_(a.get_int("group", in.n)) {}
  void run(Context& c, int32_t worker) override {
    my_rows(c, rows_of(c, sym_), worker, [&](int64_t r) {
      for (int64_t at = 0; at < in_.n; at += group_) {
        c.kernels->rms_norm(in_.row(r) + at, weight_, plus_, eps_, group_, out_.row(r) + at);
      }
    });
  }

 private:
  View in_, out_;
  ir::Sym sym_;
  const float* weight_;
  float plus_, eps_;
  int64_t group_;
};

class Binary : public Exec {
 public:
  using Fn = void (*)(const float*, const float*, int64_t, float*);
  Binary(View a, View b, View out, ir::Sym sym, Fn Kernels::*fn) : a_(a), b_(b), out_(out), sym_(sym), fn_(fn) {}
  void run(Context& c, int32_t worker) override {
    my_rows(c, rows_of(c, sym_), worker,
            [&](int64_t r) { (c.kernels->*fn_)(a_.row(r), b_.row(r), a_.n, out_.row(r)); });
  }

 private:
  View a_, b_, out_;
  ir::Sym sym_;
  Fn Kernels::*fn_;
};

class Scale : public Exec {
 public:
  Scale(View in, View out, ir::Sym sym, double factor)
      : in_(in), out_(out), sym_(sym), factor_(static_cast<float>(factor)) {}
  void run(Context& c, int32_t worker) override {
    my_rows(c, rows_of(c, sym_), worker,
            [&](int64_t r) { c.kernels->scale(in_.row(r), factor_, in_.n, out_.row(r)); });
  }

 private:
  View in_, out_;
  ir::Sym sym_;
  float factor_;
};

class Rotate : public Exec {
 public:
  Rotate(View in, View out, const ir::Attrs& a)
      : in_(in),
        out_(out),
        freq_(a.get_doubles("inv_freq").begin(), a.get_doubles("inv_freq").end()),
        head_dim_(a.get_int("head_dim", 0)),
        offset_(a.get_int("offset", 0)),
        factor_(a.get_double("attention_factor", 1)),
        interleaved_(a.get_bool("interleaved", false)) {}
  void run(Context& c, int32_t worker) override {
    std::vector<float>& angles = c.scratch[static_cast<size_t>(worker)];
    const int64_t half = static_cast<int64_t>(freq_.size());
    my_rows(c, c.tokens, worker, [&](int64_t r) {
      for (int64_t j = 0; j < half; ++j) {
        const double angle = c.pos[r] * freq_[static_cast<size_t>(j)];
        angles[static_cast<size_t>(j)] = static_cast<float>(std::cos(angle) * factor_);
        angles[static_cast<size_t>(half + j)] = static_cast<float>(std::sin(angle) * factor_);
      }
      std::memcpy(out_.row(r), in_.row(r), static_cast<size_t>(in_.n) * 4);
      for (int64_t at = offset_; at < in_.n; at += head_dim_) {
        const float* x = in_.row(r) + at;
        float* y = out_.row(r) + at;
        for (int64_t j = 0; j < half; ++j) {
          const int64_t a = interleaved_ ? 2 * j : j, b = interleaved_ ? 2 * j + 1 : j + half;
          const float cosine = angles[static_cast<size_t>(j)], sine = angles[static_cast<size_t>(half + j)];
          y[a] = x[a] * cosine - x[b] * sine;
          y[b] = x[b] * cosine + x[a] * sine;
        }
      }
    });
  }

 private:
  View in_, out_;
  std::vector<double> freq_;
  int64_t head_dim_, offset_;
  double factor_;
  bool interleaved_;
};

KvType kv_type(DType t) { return t == DType::kF32 ? KvType::kF32 : t == DType::kF16 ? KvType::kF16 : KvType::kBF16; }

// One layer's keys and values.
struct CacheView {
  std::byte *k = nullptr, *v = nullptr;
  int64_t block_stride = 0;
  KvType type = KvType::kBF16;
  int32_t group = 0, kv_heads = 0, head_dim = 0;
};

CacheView cache_view(const Layout& l, ir::StateId k, ir::StateId v) {
  const ir::StateSpec& spec = l.graph->state(k);
  const GroupPlan& group = l.plan->groups[static_cast<size_t>(spec.group)];
  std::byte* base = l.states + group.offset;
  return {base + l.plan->states[static_cast<size_t>(k.id)].offset,
          base + l.plan->states[static_cast<size_t>(v.id)].offset,
          group.block_bytes,
          kv_type(spec.dtype),
          spec.group,
          spec.per_unit[0],
          spec.per_unit[1]};
}

class Append : public Exec {
 public:
  Append(View k, View v, CacheView cache) : k_(k), v_(v), cache_(cache) {}
  void run(Context& c, int32_t worker) override {
    const int32_t* slots = c.slots[static_cast<size_t>(cache_.group)];
    const int64_t dim = cache_.head_dim, width = (dim + 15) / 16 * 16, bytes = cache_.type == KvType::kF32 ? 4 : 2;
    my_rows(c, c.tokens, worker, [&](int64_t r) {
      if (slots[r] < 0) return;
      const int64_t block = slots[r] / kKvBlock * cache_.block_stride, at = slots[r] % kKvBlock;
      for (int32_t h = 0; h < cache_.kv_heads; ++h) {
        const int64_t head = block + int64_t{h} * width * kKvBlock * bytes;
        c.kernels->store_kv(k_.row(r) + h * dim, dim, cache_.type, kKvBlock, cache_.k + head + at * bytes);
        c.kernels->store_kv(v_.row(r) + h * dim, dim, cache_.type, 1, cache_.v + head + at * width * bytes);
      }
    });
  }

 private:
  View k_, v_;
  CacheView cache_;
};

class Attend : public Exec {
 public:
  Attend(View q, View out, CacheView cache, const ir::Attrs& a)
      : q_(q),
        out_(out),
        cache_(cache),
        group_(static_cast<int32_t>(a.get_int("heads", 1)) / cache.kv_heads),
        window_(static_cast<int32_t>(a.get_int("window", 0))),
        scale_(static_cast<float>(a.get_double("scale", 1))),
        softcap_(static_cast<float>(a.get_double("softcap", 0))) {}
  void run(Context& c, int32_t worker) override {
    AttentionArgs args;
    args.k = cache_.k;
    args.v = cache_.v;
    args.block_stride = cache_.block_stride;
    args.type = cache_.type;
    args.group = group_;
    args.head_dim = cache_.head_dim;
    args.scale = scale_;
    args.softcap = softcap_;
    args.scratch = c.scratch[static_cast<size_t>(worker)].data();
    // A worker takes the heads whose work, in keys, begins inside its part of the step's work.
    const int64_t heads = int64_t{group_} * cache_.kv_heads;
    const auto keys = [&](int64_t r) {
      return window_ > 0 && window_ <= c.pos[r] ? int64_t{window_} : int64_t{c.pos[r]} + 1;
    };
    int64_t all = 0;
    for (int64_t r = 0; r < c.tokens; ++r) all += keys(r) * heads;
    const int64_t from = all * worker / c.team->size(), to = all * (worker + 1) / c.team->size();
    int64_t before = 0;
    for (int64_t r = 0; r < c.tokens; ++r) {
      const int64_t n = keys(r);
      const auto head_at = [&](int64_t work) { return std::clamp<int64_t>((work - before + n - 1) / n, 0, heads); };
      const int64_t first = before >= from ? 0 : head_at(from), last = before >= to ? 0 : head_at(to);
      before += n * heads;
      if (first >= last) continue;
      args.q = q_.row(r);
      args.out = out_.row(r);
      args.table = c.tables[static_cast<size_t>(cache_.group)] + int64_t{c.seq[r]} * c.pages;
      args.end = c.pos[r] + 1;
      args.begin = args.end - static_cast<int32_t>(n);
      c.kernels->attention(args, static_cast<int32_t>(first), static_cast<int32_t>(last));
    }
  }

 private:
  View q_, out_;
  CacheView cache_;
  int32_t group_, window_;
  float scale_, softcap_;
};

class Gather : public Exec {
 public:
  Gather(View in, View out) : in_(in), out_(out) {}
  void run(Context& c, int32_t worker) override {
    my_rows(c, c.rows, worker,
            [&](int64_t r) { std::memcpy(out_.row(r), in_.row(c.wanted[r]), static_cast<size_t>(in_.n) * 4); });
  }

 private:
  View in_, out_;
};

ir::WeightId storage_of(const Layout& l, ir::WeightId w) {
  return l.graph->weight(w).same_as.valid() ? l.graph->weight(w).same_as : w;
}

const float* vector_of(const Layout& l, ir::WeightId w) {
  return reinterpret_cast<const float*>(l.weights) + l.plan->weights[static_cast<size_t>(storage_of(l, w).id)].offset;
}

Result<std::unique_ptr<Exec>> make_linear(const ir::Node& node, const Layout& l) {
  const ir::WeightId id = storage_of(l, node.weights[0]);
  const ir::WeightDecl& decl = l.graph->weight(id);
  const float* bias = node.weights.size() > 1 ? vector_of(l, node.weights[1]) : nullptr;
  std::vector<Linear::Matrix> matrices;
  for (const MatrixPlan& m : l.plan->weights[static_cast<size_t>(id.id)].matrices) {
    Linear::Matrix out;
    const int64_t tiles = (m.rows + kTileRows - 1) / kTileRows;
    out.packed = {m.recipe, m.rows, m.cols, tiles, m.bytes / tiles, m.scheme->pieces, l.weights + m.offset};
    const View view = l.view(node.out[static_cast<size_t>(node.op->name == "head" ? 0 : m.first_part)]);
    out.out = view.data;
    out.stride = view.stride;
    if (bias != nullptr) out.bias = bias + decl.parts[static_cast<size_t>(m.first_part)].row;
    matrices.push_back(out);
  }
  const ir::Sym sym = l.graph->info(node.in[0]).shape[0].sym;
  return std::unique_ptr<Exec>(
      std::make_unique<Linear>(l.view(node.in[0]), sym, std::move(matrices), node.attrs.get_double("softcap", 0)));
}

Result<std::unique_ptr<Exec>> make_embed(const ir::Node& node, const Layout& l) {
  BORA_ASSIGN(std::vector<quant::CodedMatrix> parts,
              l.store->coded(l.graph->weight(storage_of(l, node.weights[0])), {}));
  if (parts.size() != 1) return unimplemented("a table of several parts on the CPU backend");
  return std::unique_ptr<Exec>(std::make_unique<Embed>(std::move(parts[0]), l.view(node.out[0])));
}

ir::Sym rows_sym(const ir::Node& n, const Layout& l) { return l.graph->info(n.in[0]).shape[0].sym; }

Result<std::unique_ptr<Exec>> make_norm(const ir::Node& n, const Layout& l) {
  const float* weight = n.weights.empty() ? nullptr : vector_of(l, n.weights[0]);
  return std::unique_ptr<Exec>(
      std::make_unique<Norm>(l.view(n.in[0]), l.view(n.out[0]), rows_sym(n, l), weight, n.attrs));
}

Result<std::unique_ptr<Exec>> make_add(const ir::Node& n, const Layout& l) {
  return std::unique_ptr<Exec>(
      std::make_unique<Binary>(l.view(n.in[0]), l.view(n.in[1]), l.view(n.out[0]), rows_sym(n, l), &Kernels::add));
}

Result<std::unique_ptr<Exec>> make_gate(const ir::Node& n, const Layout& l) {
  const auto fn = n.attrs.get_string("kind", "") == "silu" ? &Kernels::silu_mul : &Kernels::gelu_tanh_mul;
  return std::unique_ptr<Exec>(
      std::make_unique<Binary>(l.view(n.in[0]), l.view(n.in[1]), l.view(n.out[0]), rows_sym(n, l), fn));
}

Result<std::unique_ptr<Exec>> make_scale(const ir::Node& n, const Layout& l) {
  return std::unique_ptr<Exec>(
      std::make_unique<Scale>(l.view(n.in[0]), l.view(n.out[0]), rows_sym(n, l), n.attrs.get_double("factor", 1)));
}

Result<std::unique_ptr<Exec>> make_rope(const ir::Node& n, const Layout& l) {
  return std::unique_ptr<Exec>(std::make_unique<Rotate>(l.view(n.in[0]), l.view(n.out[0]), n.attrs));
}

Result<std::unique_ptr<Exec>> make_append(const ir::Node& n, const Layout& l) {
  return std::unique_ptr<Exec>(
      std::make_unique<Append>(l.view(n.in[0]), l.view(n.in[1]), cache_view(l, n.writes[0], n.writes[1])));
}

Result<std::unique_ptr<Exec>> make_attention(const ir::Node& n, const Layout& l) {
  return std::unique_ptr<Exec>(
      std::make_unique<Attend>(l.view(n.in[0]), l.view(n.out[0]), cache_view(l, n.reads[0], n.reads[1]), n.attrs));
}

Result<std::unique_ptr<Exec>> make_gather(const ir::Node& n, const Layout& l) {
  return std::unique_ptr<Exec>(std::make_unique<Gather>(l.view(n.in[0]), l.view(n.out[0])));
}

struct Maker {
  std::string_view op;
  Result<std::unique_ptr<Exec>> (*make)(const ir::Node&, const Layout&);
};
constexpr Maker kMakers[] = {
    {"embed", make_embed},      {"linear", make_linear},        {"head", make_linear},       {"norm", make_norm},
    {"add", make_add},          {"activation_gate", make_gate}, {"scale", make_scale},       {"rope", make_rope},
    {"kv_append", make_append}, {"attention", make_attention},  {"gather_rows", make_gather}};

const Maker* find_maker(std::string_view op) {
  for (const Maker& m : kMakers) {
    if (m.op == op) return &m;
  }
  return nullptr;
}

}  // namespace

bool runs(const ir::Node& node) { return find_maker(node.op->name) != nullptr; }

Result<std::unique_ptr<Exec>> make_exec(const ir::Node& node, const Layout& layout) {
  const Maker* maker = find_maker(node.op->name);
  if (maker == nullptr) return unimplemented("op '" + std::string(node.op->name) + "' on the CPU backend");
  return maker->make(node, layout);
}

}  // namespace bora::cpu
