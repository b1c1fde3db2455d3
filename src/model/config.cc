// Configurations: config.json in its newer and older layouts, and GGUF metadata, normalised to one shape under
// Hugging Face names.
//
// After normalising: "rope" = {"full": {...}, "sliding": {...}}, "layer_types" only if the file had them, "eos" a
// list of ids.
#include <cstring>

#include "model/blocks.h"

namespace bora::model {
namespace {

void append_ids(const Json* v, Json* list) {
  if (v == nullptr) return;
  const auto add = [list](const Json& id) {
    if (!id.is_int()) return;
    for (const Json& have : list->items()) {
      if (have == id) return;
    }
    list->push_back(id);
  };
  if (v->is_array()) {
    for (const Json& id : v->items()) add(id);
  } else {
    add(*v);
  }
}

// {rope_type, rope_theta, …} from rope_theta and the older rope_scaling {type or rope_type, …}.
Json legacy_rope(const Json& c, double theta_fallback) {
  Json rope = Json::object();
  const Json* scaling = c.find("rope_scaling");
  if (scaling != nullptr && scaling->is_object()) {
    rope = *scaling;
    if (rope.find("rope_type") == nullptr) {
      const Json* type = scaling->find("type");
      rope.set("rope_type", type != nullptr ? *type : Json("default"));
    }
  }
  const Json* theta = c.find("rope_theta");
  rope.set("rope_theta", theta != nullptr && theta->is_number() ? *theta : Json(theta_fallback));
  return rope;
}

void normalise_rope(Json* c) {
  Json full, sliding;
  const Json* parameters = c->find("rope_parameters");
  if (parameters != nullptr && parameters->is_object()) {
    const Json* by_full = parameters->find("full_attention");
    const Json* by_sliding = parameters->find("sliding_attention");
    full = by_full != nullptr ? *by_full : *parameters;
    sliding = by_sliding != nullptr ? *by_sliding : full;
  } else {
    full = legacy_rope(*c, 10000);
    sliding = full;
    // Sliding layers have an unscaled table of their own where the older layout names their base.
    if (const Json* local = c->find("rope_local_base_freq")) {
      sliding = Json::object();
      sliding.set("rope_theta", *local);
      sliding.set("rope_type", "default");
    }
  }
  Json rope = Json::object();
  rope.set("full", std::move(full));
  rope.set("sliding", std::move(sliding));
  c->set("rope", std::move(rope));
}

Result<ConfigSource> from_json(const formats::Checkpoint& checkpoint) {
  BORA_ASSIGN(const std::string text, checkpoint.side_file("config.json"));
  auto parsed = Json::parse(text);
  if (!parsed.ok()) return std::move(parsed).take_status().with_context(checkpoint.path() + "/config.json");
  if (!parsed->is_object()) return invalid_argument(checkpoint.path() + "/config.json: is no JSON object");
  ConfigSource out;
  const Json* names = parsed->find("architectures");
  if (names != nullptr && names->is_array() && names->size() > 0 && names->items()[0].is_string()) {
    out.architecture = names->items()[0].as_string();
  }
  Json eos = Json::array();
  append_ids(parsed->find("eos_token_id"), &eos);
  const Json* wrapped = parsed->find("text_config");
  out.json = wrapped != nullptr && wrapped->is_object() ? *wrapped : *parsed;
  append_ids(out.json.find("eos_token_id"), &eos);
  auto generation = checkpoint.side_file("generation_config.json");
  if (generation.ok()) {
    auto g = Json::parse(*generation);
    if (g.ok()) append_ids(g->find("eos_token_id"), &eos);
  } else if (generation.status().code() != Code::kNotFound) {
    return std::move(generation).take_status();
  }
  // A wrapper's own switch decides about tying where the text part is silent.
  if (out.json.find("tie_word_embeddings") == nullptr && parsed->find("tie_word_embeddings") != nullptr) {
    out.json.set("tie_word_embeddings", *parsed->find("tie_word_embeddings"));
  }
  normalise_rope(&out.json);
  out.json.set("eos", std::move(eos));
  return out;
}

struct KeyName {
  std::string_view gguf, json;
};
constexpr KeyName kKeys[] = {{"block_count", "num_hidden_layers"},
                             {"embedding_length", "hidden_size"},
                             {"feed_forward_length", "intermediate_size"},
                             {"attention.head_count", "num_attention_heads"},
                             {"attention.head_count_kv", "num_key_value_heads"},
                             {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                             {"attention.key_length", "head_dim"},
                             {"attention.sliding_window", "sliding_window"},
                             {"context_length", "max_position_embeddings"}};

Json gguf_rope(const formats::Checkpoint& checkpoint, const std::string& prefix) {
  Json rope = Json::object();
  rope.set("rope_type", "default");
  if (const auto* base = checkpoint.metadata(prefix + "rope.freq_base"); base != nullptr && base->as_double()) {
    rope.set("rope_theta", *base->as_double());
  }
  const auto* type = checkpoint.metadata(prefix + "rope.scaling.type");
  const auto* factor = checkpoint.metadata(prefix + "rope.scaling.factor");
  if (type != nullptr && type->as_string() && *type->as_string() != "none") rope.set("rope_type", *type->as_string());
  if (factor != nullptr && factor->as_double()) rope.set("factor", *factor->as_double());
  const formats::TensorEntry* freqs = checkpoint.find("rope_freqs.weight");
  if (freqs != nullptr && freqs->dtype == DType::kF32) {
    Json factors = Json::array();
    const auto bytes = checkpoint.bytes(*freqs);
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      float f;
      std::memcpy(&f, bytes.data() + i, 4);
      factors.push_back(static_cast<double>(f));
    }
    rope.set("factors", std::move(factors));
  }
  return rope;
}

Result<ConfigSource> from_gguf(const formats::Checkpoint& checkpoint) {
  const auto* arch = checkpoint.metadata("general.architecture");
  if (arch == nullptr || !arch->as_string())
    return invalid_argument(checkpoint.path() + ": has no general.architecture");
  ConfigSource out;
  out.from_gguf = true;
  out.architecture = std::string(*arch->as_string());
  const std::string prefix = out.architecture + ".";
  for (const KeyName& k : kKeys) {
    const auto* v = checkpoint.metadata(prefix + std::string(k.gguf));
    if (v == nullptr) continue;
    if (auto i = v->as_int()) {
      out.json.set(k.json, *i);
    } else if (auto d = v->as_double()) {
      out.json.set(k.json, *d);
    } else {
      return unimplemented(checkpoint.path() + ": metadata '" + prefix + std::string(k.gguf) +
                           "' is no single number");
    }
  }
  const formats::TensorEntry* table = checkpoint.find("token_embd.weight");
  if (table == nullptr || table->shape.rank() != 2)
    return invalid_argument(checkpoint.path() + ": has no token_embd.weight");
  out.json.set("vocab_size", table->shape.dim(0));
  out.json.set("tie_word_embeddings", checkpoint.find("output.weight") == nullptr);
  Json full = gguf_rope(checkpoint, prefix), sliding = full;
  // Sliding layers rotate with a base of their own; files that do not say it mean 10,000.
  if (out.json.find("sliding_window") != nullptr) {
    const auto* local = checkpoint.metadata(prefix + "rope.freq_base_swa");
    sliding = Json::object();
    sliding.set("rope_type", "default");
    sliding.set("rope_theta", local != nullptr && local->as_double() ? *local->as_double() : 10000.0);
  }
  Json rope = Json::object();
  rope.set("full", std::move(full));
  rope.set("sliding", std::move(sliding));
  out.json.set("rope", std::move(rope));
  Json eos = Json::array();
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto* v = checkpoint.metadata(key);
    if (v != nullptr && v->as_int()) append_ids(std::make_unique<Json>(*v->as_int()).get(), &eos);
  }
  out.json.set("eos", std::move(eos));
  if (const auto* bos = checkpoint.metadata("tokenizer.ggml.bos_token_id"); bos != nullptr && bos->as_int()) {
    out.json.set("bos_token_id", *bos->as_int());
  }
  return out;
}

// A whole number in [low, high] under `key`, or the fallback when absent or null.
Status read_int(const Json& c, std::string_view key, int64_t low, int64_t high, int64_t fallback, int32_t* out) {
  const Json* v = c.find(key);
  int64_t n = fallback;
  if (v != nullptr && !v->is_null()) {
    if (!v->is_int()) return invalid_argument("config: '" + std::string(key) + "' must be a whole number");
    n = v->as_int();
  }
  if (n < low || n > high) {
    return invalid_argument("config: '" + std::string(key) + "' must be " + std::to_string(low) + " to " +
                            std::to_string(high) +
                            (v == nullptr ? ", it is missing" : ", it is " + std::to_string(n)));
  }
  *out = static_cast<int32_t>(n);
  return {};
}

}  // namespace

Result<ConfigSource> read_config(const formats::Checkpoint& checkpoint) {
  if (checkpoint.metadata("general.architecture") != nullptr) return from_gguf(checkpoint);
  return from_json(checkpoint);
}

Result<DecoderSettings> read_decoder(const ConfigSource& config) {
  const Json& c = config.json;
  DecoderSettings s;
  constexpr int64_t kMost = 1 << 24;
  BORA_TRY(read_int(c, "num_hidden_layers", 1, 4096, -1, &s.layers));
  BORA_TRY(read_int(c, "hidden_size", 1, kMost, -1, &s.hidden));
  BORA_TRY(read_int(c, "num_attention_heads", 1, 65536, -1, &s.heads));
  BORA_TRY(read_int(c, "num_key_value_heads", 1, s.heads, s.heads, &s.kv_heads));
  BORA_TRY(read_int(c, "head_dim", 2, 8192, s.hidden / s.heads, &s.head_dim));
  BORA_TRY(read_int(c, "intermediate_size", 1, kMost, -1, &s.ffn));
  BORA_TRY(read_int(c, "vocab_size", 1, kMost, -1, &s.vocab));
  BORA_TRY(read_int(c, "max_position_embeddings", 1, int64_t{1} << 30, 2048, &s.max_context));
  if (s.heads % s.kv_heads != 0) return invalid_argument("config: key heads must divide the attention heads");
  if (s.head_dim % 2 != 0) return invalid_argument("config: 'head_dim' must be even");
  const Json* eps = c.find("rms_norm_eps");
  s.eps = eps != nullptr && eps->is_number() ? eps->as_double() : 1e-6;
  if (!(s.eps > 0 && s.eps < 1)) return invalid_argument("config: 'rms_norm_eps' must be between 0 and 1");
  const Json* tied = c.find("tie_word_embeddings");
  s.tied = tied != nullptr && tied->is_bool() && tied->as_bool();
  s.windows.assign(static_cast<size_t>(s.layers), 0);
  int32_t window = 0;
  BORA_TRY(read_int(c, "sliding_window", 0, int64_t{1} << 30, 0, &window));
  const Json* types = c.find("layer_types");
  if (types != nullptr && types->is_array()) {
    if (types->size() != static_cast<size_t>(s.layers))
      return invalid_argument("config: 'layer_types' has another number of layers");
    for (size_t i = 0; i < types->size(); ++i) {
      const std::string type = types->items()[i].is_string() ? types->items()[i].as_string() : "";
      if (type != "full_attention" && type != "sliding_attention") {
        return unimplemented("config: layer type '" + type + "' is not supported");
      }
      if (type == "sliding_attention") s.windows[i] = window;
    }
  }
  return s;
}

void fill_info(const DecoderSettings& s, const ConfigSource& config, ModelInfo* info) {
  info->layers = s.layers;
  info->hidden = s.hidden;
  info->vocab = s.vocab;
  info->heads = s.heads;
  info->kv_heads = s.kv_heads;
  info->head_dim = s.head_dim;
  info->max_context = s.max_context;
  for (const Json& id : config.json.find("eos")->items()) info->eos.push_back(static_cast<int32_t>(id.as_int()));
  const Json* bos = config.json.find("bos_token_id");
  if (bos != nullptr && bos->is_int()) info->bos = static_cast<int32_t>(bos->as_int());
}

}  // namespace bora::model
