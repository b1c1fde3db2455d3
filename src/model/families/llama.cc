// Llama and its direct descendants (SmolLM2, Mistral): pre-norm, rotary grouped-query attention, gated mlp; optional
// biases, a window on all layers (Mistral 0.1), llama3 or linear rope.
#include <cmath>

#include "model/blocks.h"

namespace bora::model {
namespace {

bool flag(const Json& c, std::string_view key) {
  const Json* v = c.find(key);
  return v != nullptr && v->is_bool() && v->as_bool();
}

Status build(const ConfigSource& config, const Weights& root, const BuildOptions& options, ir::Builder& b,
             ModelInfo* info) {
  BORA_ASSIGN(DecoderSettings s, read_decoder(config));
  const Json* types = config.json.find("layer_types");
  const Json* window = config.json.find("sliding_window");
  if (types == nullptr && window != nullptr && window->is_int()) {
    s.windows.assign(s.windows.size(), static_cast<int32_t>(window->as_int()));
  }
  BORA_ASSIGN(const Rope rope, make_rope(*config.json.find("rope")->find("full"), s.head_dim));
  AttentionSpec spec{.heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .head_dim = s.head_dim,
                     .scale = 1 / std::sqrt(double(s.head_dim)),
                     .rope = rope};
  spec.qkv_bias = spec.out_bias = flag(config.json, "attention_bias");
  spec.paired_rows = config.from_gguf;
  fill_info(s, config, info);
  const auto layer_spec = [&](int32_t layer) {
    spec.window = s.windows[static_cast<size_t>(layer)];
    return spec;
  };
  return build_pre_norm(b, root, s, flag(config.json, "mlp_bias"), layer_spec, options);
}

constexpr std::string_view kArchitectures[] = {"LlamaForCausalLM", "MistralForCausalLM"};
constexpr std::string_view kGguf[] = {"llama"};

}  // namespace

extern const Family kLlama;
const Family kLlama{.name = "llama", .architectures = kArchitectures, .gguf_architectures = kGguf, .build = build};

}  // namespace bora::model
