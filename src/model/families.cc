// The list of families, and how a checkpoint finds its own.
#include "model/blocks.h"

namespace bora::model {

extern const Family kLlama, kQwen2, kQwen3, kGemma3;

namespace {

const Family* const kFamilies[] = {&kLlama, &kQwen2, &kQwen3, &kGemma3};

// GGUF's names of what most families share.
struct Rename {
  std::string_view canonical, gguf;
};
constexpr Rename kGgufLeaves[] = {{"self_attn.q_proj", "attn_q"},          {"self_attn.k_proj", "attn_k"},
                                  {"self_attn.v_proj", "attn_v"},          {"self_attn.o_proj", "attn_output"},
                                  {"self_attn.q_norm", "attn_q_norm"},     {"self_attn.k_norm", "attn_k_norm"},
                                  {"mlp.gate_proj", "ffn_gate"},           {"mlp.up_proj", "ffn_up"},
                                  {"mlp.down_proj", "ffn_down"},           {"input_layernorm", "attn_norm"},
                                  {"post_attention_layernorm", "ffn_norm"}};
constexpr Rename kGgufRoots[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight".
std::string gguf_name(const Family& family, std::string_view canonical) {
  const size_t dot = canonical.rfind('.');
  const std::string_view stem = canonical.substr(0, dot), kind = canonical.substr(dot);
  for (const Rename& r : kGgufRoots) {
    if (r.canonical == stem) return std::string(r.gguf) + std::string(kind);
  }
  constexpr std::string_view kLayers = "model.layers.";
  if (stem.substr(0, kLayers.size()) != kLayers) return std::string(canonical);
  const std::string_view rest = stem.substr(kLayers.size());
  const size_t end = rest.find('.');
  const std::string_view layer = rest.substr(0, end), leaf = rest.substr(end + 1);
  std::string name = family.gguf_leaf != nullptr ? family.gguf_leaf(leaf) : "";
  for (const Rename& r : kGgufLeaves) {
    if (name.empty() && r.canonical == leaf) name = std::string(r.gguf);
  }
  return "blk." + std::string(layer) + "." + (name.empty() ? std::string(leaf) : name) + std::string(kind);
}

// Multimodal directories keep the text part under a prefix.
std::string hugging_face_name(const formats::Checkpoint& checkpoint, std::string_view canonical) {
  const std::string name(canonical);
  if (checkpoint.find(name) != nullptr) return name;
  const std::string below = "language_model." + name;
  if (checkpoint.find(below) != nullptr) return below;
  constexpr std::string_view kModel = "model.";
  if (canonical.substr(0, kModel.size()) == kModel) {
    const std::string inside = "model.language_model." + name.substr(kModel.size());
    if (checkpoint.find(inside) != nullptr) return inside;
  }
  return name;
}

Result<const Family*> find_family(const ConfigSource& config) {
  std::string known;
  for (const Family* f : kFamilies) {
    for (std::string_view a : config.from_gguf ? f->gguf_architectures : f->architectures) {
      if (a == config.architecture) return f;
      known += (known.empty() ? "" : ", ") + std::string(a);
    }
  }
  return unimplemented("architecture '" + config.architecture + "' is not supported; known: " + known);
}

// Every part's tensor exists, has the declared shape and a scheme.
Status bind(const formats::Checkpoint& checkpoint, const ir::WeightDecl& decl, ir::WeightBinding* binding) {
  binding->id = decl.id;
  const int64_t cols = decl.shape.size() > 1 ? decl.shape[1] : 1;
  for (const ir::Part& part : decl.parts) {
    const formats::TensorEntry* t = checkpoint.find(part.source);
    if (t == nullptr) return not_found(checkpoint.path() + ": tensor '" + part.source + "' is missing");
    const Shape want = decl.shape.size() > 1 ? Shape{part.rows, cols} : Shape{part.rows};
    if (!(t->shape == want)) {
      return invalid_argument(checkpoint.path() + ": tensor '" + part.source + "' has shape " + t->shape.to_string() +
                              ", expected " + want.to_string());
    }
    if (t->scheme == nullptr) {
      return unimplemented(checkpoint.path() + ": tensor '" + part.source + "' of type " +
                           std::string(dtype_name(t->dtype)) + " cannot be a weight");
    }
    binding->schemes.push_back(t->scheme);
  }
  return {};
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

Result<Model> build_model(const formats::Checkpoint& checkpoint, const ConfigSource& config,
                          const BuildOptions& options) {
  auto family = find_family(config);
  if (!family.ok()) return std::move(family).take_status().with_context(checkpoint.path());
  const Family& f = **family;
  Model model;
  model.info.family = std::string(f.name);
  ir::Builder builder(&model.graph);
  const Weights root(&builder, [&](std::string_view canonical) {
    return config.from_gguf ? gguf_name(f, canonical) : hugging_face_name(checkpoint, canonical);
  });
  BORA_TRY_CONTEXT(f.build(config, root, options, builder, &model.info), checkpoint.path());
  BORA_TRY_CONTEXT(builder.finish(), checkpoint.path());
  for (const ir::WeightDecl& decl : model.graph.weights) {
    ir::WeightBinding binding;
    if (decl.same_as.valid()) {
      binding = model.bindings[static_cast<size_t>(decl.same_as.id)];
      binding.id = decl.id;
    } else {
      BORA_TRY(bind(checkpoint, decl, &binding));
      int64_t elements = 1;
      for (int64_t n : decl.shape) elements *= n;
      model.info.parameters += elements;
    }
    model.bindings.push_back(std::move(binding));
  }
  return model;
}

Result<Model> build_model(const formats::Checkpoint& checkpoint, const BuildOptions& options) {
  BORA_ASSIGN(const ConfigSource config, read_config(checkpoint));
  return build_model(checkpoint, config, options);
}

Result<quant::CodedMatrix> coded_part(const formats::Checkpoint& checkpoint, const ir::WeightDecl& decl,
                                      const ir::Part& part) {
  const formats::TensorEntry* t = checkpoint.find(part.source);
  if (t == nullptr) return not_found("tensor '" + part.source + "' is missing");
  if (t->scheme == nullptr) return unimplemented("tensor '" + part.source + "' has no scheme");
  quant::CodedMatrix m{
      t->scheme, part.rows, decl.shape.size() > 1 ? decl.shape[1] : 1, {{checkpoint.bytes(*t), t->dtype, t->shape}}};
  BORA_TRY_CONTEXT(t->scheme->check(m), part.source);
  return m;
}

Status decode_weight(const formats::Checkpoint& checkpoint, const ir::WeightDecl& decl, std::vector<float>* out) {
  const int64_t cols = decl.shape.size() > 1 ? decl.shape[1] : 1;
  out->resize(static_cast<size_t>(decl.shape[0] * cols));
  for (const ir::Part& part : decl.parts) {
    BORA_ASSIGN(const quant::CodedMatrix m, coded_part(checkpoint, decl, part));
    float* to = out->data() + part.row * cols;
    if (part.row_map.kind == ir::RowMap::Kind::kIdentity) {
      m.scheme->decode(m, 0, m.rows, to);
      continue;
    }
    for (int64_t r = 0; r < m.rows; ++r) {
      const int64_t source = part.row_map.source(r);
      m.scheme->decode(m, source, source + 1, to + r * cols);
    }
  }
  return {};
}

}  // namespace bora::model
