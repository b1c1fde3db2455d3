// Every post-processor is a template: a list of special ids and the places of text A and B, for one text and for two.
#include "text/tokenizer/post_processor.h"

#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/vocab.h"

namespace bora::text {
namespace {

struct Item {
  int sequence = -1;  // 0 = A, 1 = B, -1 = special ids
  std::vector<TokenId> ids;
  uint8_t type = 0;
};
using Template = std::vector<Item>;

void append_all(const std::vector<TokenId>& ids, uint8_t type, Encoded* out) {
  for (TokenId id : ids) out->append(id, type, false);
}

class TemplateProcessor final : public PostProcessor {
 public:
  TemplateProcessor(Template single, Template pair) : single_(std::move(single)), pair_(std::move(pair)) {}

  void single(std::vector<TokenId>* before, std::vector<TokenId>* after) const override {
    std::vector<TokenId>* where = before;
    for (const Item& item : single_) {
      if (item.sequence >= 0) {
        where = after;
      } else {
        where->insert(where->end(), item.ids.begin(), item.ids.end());
      }
    }
  }

  Encoded process(const std::vector<TokenId>& first, const std::vector<TokenId>* second) const override {
    Encoded out;
    for (const Item& item : second ? pair_ : single_) {
      if (item.sequence >= 0) {
        append_all(item.sequence == 0 ? first : *second, item.type, &out);
      } else {
        for (TokenId id : item.ids) out.append(id, item.type, true);
      }
    }
    return out;
  }

 private:
  Template single_;
  Template pair_;
};

Item sequence_item(int index, uint8_t type) { return {index, {}, type}; }
Item special_item(TokenId id, uint8_t type) { return {-1, {id}, type}; }

Result<TokenId> id_of(const Json& value) {
  if (!value.is_int() || value.as_int() < 0 || value.as_int() > Vocab::kMaxId) {
    return invalid_argument("post-processor: a token id is not a number between 0 and 2097150");
  }
  return static_cast<TokenId>(value.as_int());
}

// ["text", id]
Result<TokenId> pair_field(const Json& spec, std::string_view key) {
  const Json* v = spec.find(key);
  if (!v || !v->is_array() || v->size() != 2) return wrong_field(key, "[text, id]");
  return id_of(v->items()[1]);
}

Result<Item> template_item(const Json& piece, const Json& specials, bool pair) {
  if (!piece.is_object() || piece.size() != 1) return invalid_argument("template: a piece must have one member");
  const auto& [kind, body] = piece.members()[0];
  BORA_ASSIGN(int64_t type, int_field(body, "type_id"));
  if (type < 0 || type > 255) return wrong_field("type_id", "between 0 and 255");
  BORA_ASSIGN(std::string id, string_field(body, "id"));
  if (kind == "Sequence") {
    if (id != "A" && id != "B") return unimplemented("template: sequence \"" + id + "\" is not known");
    if (id == "B" && !pair) return invalid_argument("template: \"single\" names sequence B");
    return sequence_item(id == "A" ? 0 : 1, static_cast<uint8_t>(type));
  }
  if (kind != "SpecialToken") return unimplemented("template: piece \"" + kind + "\" is not known");
  const Json* entry = specials.find(id);
  if (!entry) return invalid_argument("template: special token \"" + id + "\" is not declared");
  BORA_ASSIGN(const Json* ids, array_field(*entry, "ids"));
  Item item{-1, {}, static_cast<uint8_t>(type)};
  for (const Json& v : ids->items()) {
    BORA_ASSIGN(TokenId token, id_of(v));
    item.ids.push_back(token);
  }
  return item;
}

Result<std::unique_ptr<PostProcessor>> template_from(const Json& spec) {
  Template templates[2];
  static const Json kNone = Json::object();
  const Json* specials = spec.find("special_tokens");
  if (!specials) specials = &kNone;
  for (int i = 0; i < 2; ++i) {
    BORA_ASSIGN(const Json* list, array_field(spec, i == 0 ? "single" : "pair"));
    for (const Json& piece : list->items()) {
      BORA_ASSIGN(Item item, template_item(piece, *specials, i == 1));
      templates[i].push_back(std::move(item));
    }
  }
  return std::unique_ptr<PostProcessor>(
      std::make_unique<TemplateProcessor>(std::move(templates[0]), std::move(templates[1])));
}

Result<std::unique_ptr<PostProcessor>> bert_from(const Json& spec) {
  BORA_ASSIGN(TokenId sep, pair_field(spec, "sep"));
  BORA_ASSIGN(TokenId cls, pair_field(spec, "cls"));
  Template single = {special_item(cls, 0), sequence_item(0, 0), special_item(sep, 0)};
  Template pair = single;
  pair.push_back(sequence_item(1, 1));
  pair.push_back(special_item(sep, 1));
  return std::unique_ptr<PostProcessor>(std::make_unique<TemplateProcessor>(std::move(single), std::move(pair)));
}

Result<std::unique_ptr<PostProcessor>> roberta_from(const Json& spec) {
  BORA_ASSIGN(TokenId sep, pair_field(spec, "sep"));
  BORA_ASSIGN(TokenId cls, pair_field(spec, "cls"));
  Template single = {special_item(cls, 0), sequence_item(0, 0), special_item(sep, 0)};
  Template pair = single;
  pair.push_back(special_item(sep, 0));
  pair.push_back(sequence_item(1, 0));
  pair.push_back(special_item(sep, 0));
  return std::unique_ptr<PostProcessor>(std::make_unique<TemplateProcessor>(std::move(single), std::move(pair)));
}

std::unique_ptr<PostProcessor> plain() {
  return std::make_unique<TemplateProcessor>(Template{sequence_item(0, 0)},
                                             Template{sequence_item(0, 0), sequence_item(1, 1)});
}

Result<std::unique_ptr<PostProcessor>> from(const Json& spec, int depth);

// The byte-level processors of a sequence only move offsets; of the others there may be one.
Result<std::unique_ptr<PostProcessor>> sequence_from(const Json& spec, int depth) {
  BORA_ASSIGN(const Json* list, array_field(spec, "processors"));
  std::unique_ptr<PostProcessor> result;
  for (const Json& item : list->items()) {
    const Json* type = item.find("type");
    if (type && type->is_string() && type->as_string() == "ByteLevel") continue;
    if (result) return unimplemented("post-processor: more than one that adds tokens in a sequence");
    BORA_ASSIGN(result, from(item, depth + 1));
  }
  if (!result) result = plain();
  return result;
}

Result<std::unique_ptr<PostProcessor>> from(const Json& spec, int depth) {
  if (spec.is_null()) return std::unique_ptr<PostProcessor>();
  if (depth > 16) return invalid_argument("post-processors nested too deeply");
  BORA_ASSIGN(std::string type, string_field(spec, "type"));
  if (type == "TemplateProcessing") return template_from(spec);
  if (type == "BertProcessing") return bert_from(spec);
  if (type == "RobertaProcessing") return roberta_from(spec);
  if (type == "ByteLevel") return plain();
  if (type == "Sequence") return sequence_from(spec, depth);
  return unimplemented("post-processor \"" + type + "\" is not known");
}

}  // namespace

void Encoded::append(TokenId id, uint8_t type, bool is_special) {
  ids.push_back(id);
  types.push_back(type);
  special.push_back(is_special);
}

Result<std::unique_ptr<PostProcessor>> post_processor_from_json(const Json& spec) { return from(spec, 0); }

std::unique_ptr<PostProcessor> make_surround(std::vector<TokenId> before, std::vector<TokenId> after) {
  Template t = {Item{-1, std::move(before), 0}, sequence_item(0, 0), Item{-1, std::move(after), 0}};
  return std::make_unique<TemplateProcessor>(t, t);
}

}  // namespace bora::text
