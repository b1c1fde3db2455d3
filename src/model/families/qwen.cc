// Qwen2 (biases on q, k, v; perhaps a window on the later layers) and Qwen3 (norms on q and k per head instead).
#include <cmath>

#include "model/blocks.h"

namespace bora::model {
namespace {

Result<AttentionSpec> common_spec(const ConfigSource& config, const DecoderSettings& s) {
  BORA_ASSIGN(const Rope rope, make_rope(*config.json.find("rope")->find("full"), s.head_dim));
  return AttentionSpec{.heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .head_dim = s.head_dim,
                       .scale = 1 / std::sqrt(double(s.head_dim)),
                       .rope = rope};
}

// Older configurations name a switch, a window and the first sliding layer.
void legacy_windows(const Json& c, DecoderSettings* s) {
  if (c.find("layer_types") != nullptr) return;
  const Json* use = c.find("use_sliding_window");
  const Json* window = c.find("sliding_window");
  const Json* first = c.find("max_window_layers");
  if (use == nullptr || !use->is_bool() || !use->as_bool() || window == nullptr || !window->is_int()) return;
  const int64_t from = first != nullptr && first->is_int() ? first->as_int() : 0;
  for (size_t i = 0; i < s->windows.size(); ++i) {
    if (static_cast<int64_t>(i) >= from) s->windows[i] = static_cast<int32_t>(window->as_int());
  }
}

Status build_decoder(const ConfigSource& config, const Weights& root, const BuildOptions& options, ir::Builder& b,
                     ModelInfo* info, bool third) {
  BORA_ASSIGN(DecoderSettings s, read_decoder(config));
  legacy_windows(config.json, &s);
  BORA_ASSIGN(AttentionSpec spec, common_spec(config, s));
  spec.qkv_bias = !third;
  spec.qk_norm = third;
  spec.norm_eps = s.eps;
  fill_info(s, config, info);
  const auto layer_spec = [&](int32_t layer) {
    spec.window = s.windows[static_cast<size_t>(layer)];
    return spec;
  };
  return build_pre_norm(b, root, s, false, layer_spec, options);
}

Status build2(const ConfigSource& config, const Weights& root, const BuildOptions& options, ir::Builder& b,
              ModelInfo* info) {
  return build_decoder(config, root, options, b, info, false);
}

Status build3(const ConfigSource& config, const Weights& root, const BuildOptions& options, ir::Builder& b,
              ModelInfo* info) {
  return build_decoder(config, root, options, b, info, true);
}

constexpr std::string_view kArchitectures2[] = {"Qwen2ForCausalLM"};
constexpr std::string_view kArchitectures3[] = {"Qwen3ForCausalLM"};
constexpr std::string_view kGguf2[] = {"qwen2"};
constexpr std::string_view kGguf3[] = {"qwen3"};

}  // namespace

extern const Family kQwen2;
const Family kQwen2{.name = "qwen2", .architectures = kArchitectures2, .gguf_architectures = kGguf2, .build = build2};
extern const Family kQwen3;
const Family kQwen3{.name = "qwen3", .architectures = kArchitectures3, .gguf_architectures = kGguf3, .build = build3};

}  // namespace bora::model
