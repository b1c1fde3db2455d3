// Gemma 3: scaled embedding, norms before and after attention and mlp, norms on q and k per head, five windowed
// layers to one full one with rope tables of their own. Hugging Face files store norm weights minus one, GGUF files
// the whole weight.
#include <cmath>

#include "model/blocks.h"

namespace bora::model {
namespace {

using ir::Axis;
using ir::Value;

// Where the file has no layer_types: every pattern-th layer is full.
void pattern_windows(const Json& c, DecoderSettings* s) {
  if (c.find("layer_types") != nullptr) return;
  const Json* p = c.find("sliding_window_pattern");
  if (p == nullptr) p = c.find("_sliding_window_pattern");
  const int64_t pattern = p != nullptr && p->is_int() && p->as_int() > 0 ? p->as_int() : 6;
  const Json* window = c.find("sliding_window");
  const int32_t w = window != nullptr && window->is_int() ? static_cast<int32_t>(window->as_int()) : 4096;
  for (size_t i = 0; i < s->windows.size(); ++i) s->windows[i] = (static_cast<int64_t>(i) + 1) % pattern == 0 ? 0 : w;
}

Status build(const ConfigSource& config, const Weights& root, const BuildOptions& options, ir::Builder& b,
             ModelInfo* info) {
  BORA_ASSIGN(DecoderSettings s, read_decoder(config));
  pattern_windows(config.json, &s);
  const Json* tied = config.json.find("tie_word_embeddings");
  if (tied == nullptr) s.tied = true;
  const double plus = config.from_gguf ? 0 : 1;
  BORA_ASSIGN(const Rope full, make_rope(*config.json.find("rope")->find("full"), s.head_dim));
  BORA_ASSIGN(const Rope sliding, make_rope(*config.json.find("rope")->find("sliding"), s.head_dim));
  const Json* scalar = config.json.find("query_pre_attn_scalar");
  const double scale =
      1 / std::sqrt(scalar != nullptr && scalar->is_number() ? scalar->as_double() : double(s.head_dim));
  const Json* cap = config.json.find("final_logit_softcapping");
  fill_info(s, config, info);

  b.standard_batch();
  b.begin_entry("forward");
  const ir::WeightId table = root.matrix({{"model.embed_tokens", s.vocab}}, s.hidden, Axis::kVocab, Axis::kHidden);
  ir::Attrs factor;
  factor.set("factor", std::sqrt(double(s.hidden)));
  Value x = b.emit1({.op = "embed", .in = {b.graph().batch.ids}, .weights = {table}});
  x = b.emit1({.op = "scale", .in = {x}, .attrs = factor});
  if (options.hidden_outputs) b.output("hidden.embed", x);
  for (int32_t layer = 0; layer < s.layers; ++layer) {
    const Weights l = root / "model.layers" / layer;
    const int32_t window = s.windows[static_cast<size_t>(layer)];
    const AttentionSpec spec{.heads = s.heads,
                             .kv_heads = s.kv_heads,
                             .head_dim = s.head_dim,
                             .scale = scale,
                             .window = window,
                             .rope = window > 0 ? sliding : full,
                             .qk_norm = true,
                             .norm_eps = s.eps,
                             .norm_plus = plus};
    const auto normed = [&](std::string_view name, Value v) {
      return norm(b, l.vector(name, s.hidden), v, s.eps, plus);
    };
    Value a = attention(b, l / "self_attn", normed("input_layernorm", x), s.hidden, layer, spec, options);
    x = b.emit1({.op = "add", .in = {x, normed("post_attention_layernorm", a)}});
    Value m = gated_mlp(b, l / "mlp", normed("pre_feedforward_layernorm", x), s.hidden, s.ffn, "gelu_tanh", false);
    x = b.emit1({.op = "add", .in = {x, normed("post_feedforward_layernorm", m)}});
    if (options.hidden_outputs) b.output("hidden.layers." + std::to_string(layer), x);
  }
  finish_logits(b, root, x, table, s, plus, cap != nullptr && cap->is_number() ? cap->as_double() : 0, options);
  return b.status();
}

struct Rename {
  std::string_view canonical, gguf;
};
// Only where the names differ from the common ones.
constexpr Rename kNames[] = {{"post_attention_layernorm", "post_attention_norm"},
                             {"pre_feedforward_layernorm", "ffn_norm"},
                             {"post_feedforward_layernorm", "post_ffw_norm"}};

std::string gguf_leaf(std::string_view leaf) {
  for (const Rename& r : kNames) {
    if (r.canonical == leaf) return std::string(r.gguf);
  }
  return "";
}

constexpr std::string_view kArchitectures[] = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"};
constexpr std::string_view kGguf[] = {"gemma3"};

}  // namespace

extern const Family kGemma3;
const Family kGemma3{.name = "gemma3",
                     .architectures = kArchitectures,
                     .gguf_architectures = kGguf,
                     .build = build,
                     .gguf_leaf = gguf_leaf};

}  // namespace bora::model
