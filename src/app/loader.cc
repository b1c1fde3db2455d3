#include "app/loader.h"

#include <cstring>

#include "base/json.h"

namespace bora::app {
namespace {

std::optional<int64_t> number(const formats::Checkpoint& c, std::string_view key) {
  const auto* v = c.metadata(key);
  return v == nullptr ? std::nullopt : v->as_int();
}

std::optional<bool> boolean(const formats::Checkpoint& c, std::string_view key) {
  const auto* v = c.metadata(key);
  return v == nullptr ? std::nullopt : v->as_bool();
}

std::string_view words(const formats::Checkpoint& c, std::string_view key) {
  const auto* v = c.metadata(key);
  return v == nullptr ? std::string_view() : v->as_string().value_or(std::string_view());
}

std::string_view bytes_of(const formats::Checkpoint& c, std::string_view key) {
  const auto* v = c.metadata(key);
  if (v == nullptr || v->raw.empty()) return {};
  return {reinterpret_cast<const char*>(v->raw.data()), v->raw.size()};
}

Result<std::unique_ptr<text::Tokenizer>> from_gguf(const formats::Checkpoint& c) {
  text::GgufVocab v;
  v.model = words(c, "tokenizer.ggml.model");
  v.pre = words(c, "tokenizer.ggml.pre");
  std::vector<float> scores;
  std::vector<int32_t> types;
  if (const auto* tokens = c.metadata("tokenizer.ggml.tokens")) v.tokens = tokens->strings;
  if (const auto* merges = c.metadata("tokenizer.ggml.merges")) v.merges = merges->strings;
  if (const auto* s = c.metadata("tokenizer.ggml.scores")) {
    for (double d : s->as_doubles().value_or(std::vector<double>())) scores.push_back(static_cast<float>(d));
  }
  if (const auto* t = c.metadata("tokenizer.ggml.token_type")) {
    for (int64_t n : t->as_ints().value_or(std::vector<int64_t>())) types.push_back(static_cast<int32_t>(n));
  }
  v.scores = scores;
  v.token_types = types;
  v.precompiled_charsmap = bytes_of(c, "tokenizer.ggml.precompiled_charsmap");
  v.bos = number(c, "tokenizer.ggml.bos_token_id");
  v.eos = number(c, "tokenizer.ggml.eos_token_id");
  v.unk = number(c, "tokenizer.ggml.unknown_token_id");
  v.sep = number(c, "tokenizer.ggml.seperator_token_id");
  v.pad = number(c, "tokenizer.ggml.padding_token_id");
  v.cls = number(c, "tokenizer.ggml.cls_token_id");
  v.mask = number(c, "tokenizer.ggml.mask_token_id");
  v.eot = number(c, "tokenizer.ggml.eot_token_id");
  v.eom = number(c, "tokenizer.ggml.eom_token_id");
  v.add_bos = boolean(c, "tokenizer.ggml.add_bos_token");
  v.add_eos = boolean(c, "tokenizer.ggml.add_eos_token");
  v.add_space_prefix = boolean(c, "tokenizer.ggml.add_space_prefix");
  v.remove_extra_whitespaces = boolean(c, "tokenizer.ggml.remove_extra_whitespaces");
  v.escape_whitespaces = boolean(c, "tokenizer.ggml.escape_whitespaces");
  return text::tokenizer_from_gguf(v);
}

}  // namespace

Result<std::unique_ptr<Source>> open_source(const std::string& path) {
  auto out = std::make_unique<Source>();
  BORA_ASSIGN(out->checkpoint, formats::open_checkpoint(*out->files, path));
  return out;
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer_file(FileSystem& files, const std::string& tokenizer_json) {
  BORA_ASSIGN(const std::string json, files.read(tokenizer_json, 256u << 20));
  auto t = text::tokenizer_from_json(json, "");
  if (!t.ok()) return std::move(t).take_status().with_context(tokenizer_json);
  return t;
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const formats::Checkpoint& c) {
  if (c.metadata("tokenizer.ggml.model") != nullptr) {
    auto t = from_gguf(c);
    if (!t.ok()) return std::move(t).take_status().with_context(c.path() + ": tokenizer");
    return t;
  }
  BORA_ASSIGN(const std::string json, c.side_file("tokenizer.json"));
  auto config = c.side_file("tokenizer_config.json");
  auto t = text::tokenizer_from_json(json, config.ok() ? *config : std::string());
  if (!t.ok()) return std::move(t).take_status().with_context(c.path() + "/tokenizer.json");
  return t;
}

Result<std::string> load_template(const formats::Checkpoint& c) {
  if (const auto* v = c.metadata("tokenizer.chat_template"); v != nullptr && v->as_string())
    return std::string(*v->as_string());
  auto own = c.side_file("chat_template.jinja");
  if (own.ok()) return own;
  BORA_ASSIGN(const std::string text, c.side_file("tokenizer_config.json"));
  BORA_ASSIGN(const Json config, Json::parse(text));
  const Json* t = config.find("chat_template");
  if (t != nullptr && t->is_string()) return t->as_string();
  // A list of named templates: the one called default, else the first.
  if (t != nullptr && t->is_array()) {
    const Json* chosen = nullptr;
    for (const Json& entry : t->items()) {
      const Json* name = entry.find("name");
      const Json* source = entry.find("template");
      if (source == nullptr || !source->is_string()) continue;
      if (chosen == nullptr || (name != nullptr && *name == Json("default"))) chosen = source;
    }
    if (chosen != nullptr) return chosen->as_string();
  }
  return not_found(c.path() + ": the model has no chat template");
}

}  // namespace bora::app
