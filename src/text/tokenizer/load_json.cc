// tokenizer.json and tokenizer_config.json.
//
// The vocabulary and the merges are read straight from simdjson's on-demand parser; everything else is small and goes
// through a value tree. Texts of byte-level vocabularies are turned into bytes as they are read.
#include <simdjson.h>

#include <algorithm>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/merges.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/word_models.h"

namespace bora::text {
namespace {

namespace od = simdjson::ondemand;

Status bad_json(simdjson::error_code error) {
  return data_loss(std::string("tokenizer.json: ") + simdjson::error_message(error));
}

// Everything outside the vocabulary.
struct Head {
  Json root = Json::object();   // members of the file but for "model"
  Json model = Json::object();  // members of the model but for "vocab" and "merges"
  bool has_model = false;
  size_t file_bytes = 0;
};

Result<Json> small_value(od::value value) {
  std::string_view raw;
  od::json_type type;
  if (auto error = value.type().get(type)) return bad_json(error);
  if (type == od::json_type::object || type == od::json_type::array) {
    if (type == od::json_type::object) {
      od::object object;
      if (auto error = value.get_object().get(object)) return bad_json(error);
      if (auto error = object.raw_json().get(raw)) return bad_json(error);
    } else {
      od::array array;
      if (auto error = value.get_array().get(array)) return bad_json(error);
      if (auto error = array.raw_json().get(raw)) return bad_json(error);
    }
  } else {
    raw = value.raw_json_token();
  }
  return Json::parse(raw);
}

Status read_model_head(od::object model, Head* head) {
  head->has_model = true;
  for (auto member : model) {
    od::field field;
    std::string_view key;
    if (auto error = std::move(member).get(field)) return bad_json(error);
    if (auto error = field.unescaped_key().get(key)) return bad_json(error);
    if (key == "vocab" || key == "merges") continue;
    std::string name(key);
    BORA_ASSIGN(Json value, small_value(field.value()));
    head->model.set(name, std::move(value));
  }
  return ok_status();
}

Result<Head> read_head(od::document* doc) {
  Head head;
  od::object root;
  if (auto error = doc->get_object().get(root)) return bad_json(error);
  for (auto member : root) {
    od::field field;
    std::string_view key;
    if (auto error = std::move(member).get(field)) return bad_json(error);
    if (auto error = field.unescaped_key().get(key)) return bad_json(error);
    std::string name(key);
    if (name == "model") {
      od::object model;
      if (auto error = field.value().get_object().get(model)) return bad_json(error);
      BORA_TRY(read_model_head(model, &head));
      continue;
    }
    BORA_ASSIGN(Json value, small_value(field.value()));
    head.root.set(name, std::move(value));
  }
  return head;
}

// One member of the model, from the start of the document again.
Result<od::value> model_member(od::document* doc, const char* key) {
  doc->rewind();
  od::value value;
  if (auto error = (*doc)["model"][key].get(value)) {
    return invalid_argument(std::string("tokenizer.json: model has no readable \"") + key + "\" (" +
                            simdjson::error_message(error) + ")");
  }
  return value;
}

struct VocabReader {
  bool raw = false;  // byte-level texts
  size_t file_bytes = 0;
  Vocab vocab;
  std::vector<std::pair<TokenId, std::string>> extra;
  std::string buffer;

  Status add(std::string_view text, int64_t id) {
    if (id < 0 || id > Vocab::kMaxId)
      return invalid_argument("vocab: id of \"" + std::string(text) + "\" is out of range");
    auto token = static_cast<TokenId>(id);
    std::string_view stored = text;
    if (raw) {
      buffer.clear();
      if (!append_from_alphabet(text, &buffer)) {
        extra.emplace_back(token, text);
        return ok_status();
      }
      stored = buffer;
    }
    if (!vocab.add(token, stored)) return invalid_argument("vocab: id " + std::to_string(id) + " stands twice");
    return ok_status();
  }
};

Status read_vocab_object(od::document* doc, VocabReader* reader) {
  // Files have 33 to 61 bytes a token, merges included; a wrong guess costs one more pass over the index.
  reader->vocab.reserve(std::min<size_t>(reader->file_bytes / 56, Vocab::kMaxId), 0);
  BORA_ASSIGN(od::value value, model_member(doc, "vocab"));
  od::object object;
  if (auto error = value.get_object().get(object)) return bad_json(error);
  for (auto member : object) {
    od::field field;
    std::string_view key;
    int64_t id;
    if (auto error = std::move(member).get(field)) return bad_json(error);
    if (auto error = field.unescaped_key().get(key)) return bad_json(error);
    std::string_view text = key;
    if (auto error = field.value().get_int64().get(id)) return bad_json(error);
    BORA_TRY(reader->add(text, id));
  }
  return ok_status();
}

Status read_merges(od::document* doc, bool raw, size_t prefix, BpeModel* model) {
  BORA_ASSIGN(od::value value, model_member(doc, "merges"));
  od::array merges;
  std::string_view text;
  if (auto error = value.get_array().get(merges)) return bad_json(error);
  if (auto error = merges.raw_json().get(text)) return bad_json(error);
  return add_merges(text, raw, prefix, model);
}

Result<std::unique_ptr<Model>> read_bpe(od::document* doc, const Head& head, TokenizerParts* parts) {
  const Json& m = head.model;
  const Json* dropout = m.find("dropout");
  if (dropout && !dropout->is_null() && !(dropout->is_number() && dropout->as_double() == 0)) {
    return unimplemented("model BPE: dropout makes ids random");
  }
  BpeConfig config;
  BORA_ASSIGN(config.unk_token, optional_string_field(m, "unk_token"));
  BORA_ASSIGN(auto prefix, optional_string_field(m, "continuing_subword_prefix"));
  BORA_ASSIGN(auto suffix, optional_string_field(m, "end_of_word_suffix"));
  BORA_ASSIGN(config.fuse_unk, bool_field(m, "fuse_unk", false));
  BORA_ASSIGN(config.byte_fallback, bool_field(m, "byte_fallback", false));
  BORA_ASSIGN(config.ignore_merges, bool_field(m, "ignore_merges", false));
  config.continuing_subword_prefix = prefix.value_or("");
  config.end_of_word_suffix = suffix.value_or("");
  bool affixes = !config.continuing_subword_prefix.empty() || !config.end_of_word_suffix.empty();
  const Json* pre = head.root.find("pre_tokenizer");
  VocabReader reader;
  reader.file_bytes = head.file_bytes;
  reader.raw = parts->tail.present && !affixes && !config.unk_token && !config.byte_fallback;
  if (!reader.raw && parts->tail.present) {  // the alphabet has to be written out after all
    BORA_ASSIGN(parts->pre_tokenizer, pretokenizer_from_json(*pre, nullptr));
    parts->tail = {};
  }
  config.raw_bytes = reader.raw;
  parts->text_rules.byte_tokens = config.byte_fallback;
  parts->text_rules.word_end = config.end_of_word_suffix;
  BORA_TRY(read_vocab_object(doc, &reader));
  parts->extra_texts = std::move(reader.extra);
  if (config.unk_token && reader.vocab.find(*config.unk_token) < 0) {
    return invalid_argument("model BPE: unk_token \"" + *config.unk_token + "\" is not in the vocabulary");
  }
  bool raw = reader.raw;
  size_t prefix_size = config.continuing_subword_prefix.size();
  auto model = std::make_unique<BpeModel>(std::move(reader.vocab), std::move(config));
  BORA_TRY(read_merges(doc, raw, prefix_size, model.get()));
  BORA_TRY(model->finish());
  return std::unique_ptr<Model>(std::move(model));
}

Result<std::unique_ptr<Model>> read_unigram(od::document* doc, const Head& head, TokenizerParts* parts) {
  BORA_ASSIGN(od::value value, model_member(doc, "vocab"));
  od::array list;
  if (auto error = value.get_array().get(list)) return bad_json(error);
  Vocab vocab;
  std::vector<double> scores;
  for (auto element : list) {
    od::array pair;
    if (auto error = element.get_array().get(pair)) return bad_json(error);
    std::string_view text;
    double score = 0;
    int count = 0;
    for (auto item : pair) {
      auto error = count == 0 ? item.get_string().get(text) : item.get_double().get(score);
      if (error) return bad_json(error);
      ++count;
    }
    if (count != 2) return invalid_argument("vocab: an element is not [text, score]");
    if (!vocab.add(static_cast<TokenId>(scores.size()), text)) return invalid_argument("vocab: too many tokens");
    scores.push_back(score);
  }
  UnigramConfig config;
  const Json* unk = head.model.find("unk_id");
  if (unk && !unk->is_null()) {
    if (!unk->is_int() || unk->as_int() < 0 || unk->as_int() >= static_cast<int64_t>(scores.size())) {
      return wrong_field("unk_id", "null or an index into the vocabulary");
    }
    config.unk_id = static_cast<TokenId>(unk->as_int());
  }
  BORA_ASSIGN(config.byte_fallback, bool_field(head.model, "byte_fallback", false));
  parts->text_rules.byte_tokens = config.byte_fallback;
  std::vector<bool> matched(scores.size(), true);
  return std::unique_ptr<Model>(std::make_unique<UnigramModel>(std::move(vocab), std::move(scores), matched, config));
}

Result<std::unique_ptr<Model>> read_word_piece(od::document* doc, const Head& head, TokenizerParts* parts) {
  BORA_ASSIGN(std::string unk, string_field(head.model, "unk_token"));
  BORA_ASSIGN(std::string prefix, string_field(head.model, "continuing_subword_prefix"));
  BORA_ASSIGN(int64_t longest, int_field(head.model, "max_input_chars_per_word"));
  if (longest < 0) return wrong_field("max_input_chars_per_word", "at least 0");
  VocabReader reader;
  reader.file_bytes = head.file_bytes;
  BORA_TRY(read_vocab_object(doc, &reader));
  if (reader.vocab.find(unk) < 0)
    return invalid_argument("model WordPiece: unk_token \"" + unk + "\" is not in the vocabulary");
  parts->text_rules.continuing_prefix = prefix;
  return std::unique_ptr<Model>(std::make_unique<WordPieceModel>(std::move(reader.vocab), unk, std::move(prefix),
                                                                 static_cast<size_t>(longest)));
}

Result<std::unique_ptr<Model>> read_word_level(od::document* doc, const Head& head, TokenizerParts*) {
  BORA_ASSIGN(std::string unk, string_field(head.model, "unk_token"));
  VocabReader reader;
  reader.file_bytes = head.file_bytes;
  BORA_TRY(read_vocab_object(doc, &reader));
  return std::unique_ptr<Model>(std::make_unique<WordLevelModel>(std::move(reader.vocab), unk));
}

// Files of old versions leave the type out; the members tell.
std::string model_type(const Json& model) {
  const Json* type = model.find("type");
  if (type && type->is_string()) return type->as_string();
  if (model.contains("unk_id")) return "Unigram";
  if (model.contains("max_input_chars_per_word")) return "WordPiece";
  if (model.contains("dropout") || model.contains("fuse_unk")) return "BPE";
  return "";
}

using ModelReader = Result<std::unique_ptr<Model>> (*)(od::document*, const Head&, TokenizerParts*);
constexpr std::pair<std::string_view, ModelReader> kModels[] = {
    {"BPE", read_bpe}, {"Unigram", read_unigram}, {"WordPiece", read_word_piece}, {"WordLevel", read_word_level}};

Result<std::vector<AddedToken>> read_added(const Json& root) {
  std::vector<AddedToken> added;
  const Json* list = root.find("added_tokens");
  if (!list || list->is_null()) return added;
  if (!list->is_array()) return wrong_field("added_tokens", "an array");
  for (const Json& item : list->items()) {
    AddedToken a;
    BORA_ASSIGN(int64_t id, int_field(item, "id"));
    if (id < 0 || id > Vocab::kMaxId)
      return invalid_argument("added_tokens: id " + std::to_string(id) + " is out of range");
    a.id = static_cast<TokenId>(id);
    BORA_ASSIGN(a.content, string_field(item, "content"));
    BORA_ASSIGN(a.special, bool_field(item, "special", false));
    BORA_ASSIGN(a.single_word, bool_field(item, "single_word", false));
    BORA_ASSIGN(a.lstrip, bool_field(item, "lstrip", false));
    BORA_ASSIGN(a.rstrip, bool_field(item, "rstrip", false));
    BORA_ASSIGN(a.normalized, bool_field(item, "normalized", !a.special));
    added.push_back(std::move(a));
  }
  return added;
}

// Does any part of the file treat "▁" as a space?
bool uses_metaspace(const Json& root) {
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder"}) {
    const Json* v = root.find(key);
    if (v && v->dump().find("\u2581") != std::string::npos) return true;
  }
  return false;
}

const Json& member(const Json& root, std::string_view key) {
  static const Json kNull;
  const Json* v = root.find(key);
  return v ? *v : kNull;
}

Result<TokenizerParts> read_parts(od::document* doc, size_t file_bytes) {
  BORA_ASSIGN(Head head, read_head(doc));
  head.file_bytes = file_bytes;
  if (!head.has_model) return invalid_argument("tokenizer.json: no \"model\"");
  TokenizerParts parts;
  BORA_ASSIGN_CONTEXT(parts.normalizer, normalizer_from_json(member(head.root, "normalizer")), "normalizer");
  BORA_ASSIGN_CONTEXT(parts.pre_tokenizer, pretokenizer_from_json(member(head.root, "pre_tokenizer"), &parts.tail),
                      "pre_tokenizer");
  BORA_ASSIGN_CONTEXT(parts.post_processor, post_processor_from_json(member(head.root, "post_processor")),
                      "post_processor");
  BORA_ASSIGN_CONTEXT(parts.decoder, Decoder::from_json(member(head.root, "decoder")), "decoder");
  BORA_ASSIGN_CONTEXT(parts.added, read_added(head.root), "added_tokens");
  if (uses_metaspace(head.root)) parts.text_rules.space = "\u2581";
  std::string type = model_type(head.model);
  for (const auto& [name, read] : kModels) {
    if (name != type) continue;
    BORA_ASSIGN_CONTEXT(parts.model, read(doc, head, &parts), "model");
    // Another model gets its bytes through the alphabet.
    if (parts.tail.present && !parts.model->raw_bytes()) {
      BORA_ASSIGN(parts.pre_tokenizer, pretokenizer_from_json(member(head.root, "pre_tokenizer"), nullptr));
      parts.tail = {};
    }
    return parts;
  }
  return unimplemented("model type \"" + type + "\" is not known");
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view tokenizer_json,
                                                       std::string_view config_json) {
  simdjson::padded_string padded(tokenizer_json);
  od::parser parser;
  od::document doc;
  if (auto error = parser.iterate(padded).get(doc)) return bad_json(error);
  BORA_ASSIGN(TokenizerParts parts, read_parts(&doc, tokenizer_json.size()));
  Json config;
  if (!config_json.empty()) {
    BORA_ASSIGN_CONTEXT(config, Json::parse(config_json), "tokenizer_config.json");
  }
  SpecialIds special;
  auto find = [&](std::string_view key) -> TokenId {
    const Json* v = config.find(key);
    if (v && v->is_object()) v = v->find("content");
    if (!v || !v->is_string()) return -1;
    for (const AddedToken& a : parts.added) {
      if (a.content == v->as_string()) return a.id;
    }
    return parts.model->raw_bytes() ? -1 : parts.model->vocab().find(v->as_string());
  };
  special.bos = find("bos_token");
  special.eos = find("eos_token");
  special.unk = find("unk_token");
  special.pad = find("pad_token");
  parts.special = special;
  return make_tokenizer(std::move(parts));
}

}  // namespace bora::text
