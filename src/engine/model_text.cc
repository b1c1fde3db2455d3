#include "engine/model_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/os/files.h"
#include "formats/checkpoint.h"

namespace bora::engine {
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
  auto text = c.side_file("tokenizer_config.json");
  if (text.status().code() == Code::kNotFound) return not_found(c.path() + ": the model has no chat template");
  if (!text.ok()) return text;
  BORA_ASSIGN(const Json config, Json::parse(*text));
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

Result<std::unique_ptr<ModelText>> load_model_text(const formats::Checkpoint& checkpoint,
                                                   const ModelTextOptions& options) {
  auto out = std::make_unique<ModelText>();
  BORA_ASSIGN(out->tokenizer, load_tokenizer(checkpoint));
  const text::SpecialIds special = out->tokenizer->special_ids();
  if (special.bos >= 0) out->bos_token = out->tokenizer->token_text(special.bos);
  if (special.eos >= 0) out->eos_token = out->tokenizer->token_text(special.eos);
  std::string where = checkpoint.path() + ": chat template";
  if (!options.template_file.empty()) {
    where = options.template_file;
    BORA_ASSIGN(out->template_source, make_os_file_system()->read(options.template_file, 16u << 20));
  } else {
    auto source = load_template(checkpoint);
    if (!source.ok() && source.status().code() != Code::kNotFound) return std::move(source).take_status();
    if (source.ok()) out->template_source = *std::move(source);
  }
  if (!out->template_source.empty()) {
    BORA_ASSIGN_CONTEXT(out->chat_template, text::parse_template(out->template_source, {}), where);
  }
  out->answers = options.parser.empty() ? &text::choose_answer_format(out->template_source)
                                        : text::find_answer_format(options.parser);
  if (out->answers == nullptr) {
    std::string known;
    for (const text::AnswerFormat* f : text::answer_formats())
      known += (known.empty() ? "" : ", ") + std::string(f->name);
    return invalid_argument("no answer format is named '" + options.parser + "'; known: " + known);
  }
  return out;
}

std::vector<int32_t> end_tokens(const formats::Checkpoint& checkpoint, const text::Tokenizer& tokenizer,
                                std::span<const int32_t> configured) {
  std::vector<int32_t> out(configured.begin(), configured.end());
  if (tokenizer.special_ids().eos >= 0) out.push_back(tokenizer.special_ids().eos);
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::optional<int64_t> id = number(checkpoint, key);
    if (id && *id >= 0 && *id < tokenizer.vocab_size()) out.push_back(static_cast<int32_t>(*id));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace bora::engine
