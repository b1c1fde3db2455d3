// POST /tokenize, POST /detokenize
#include "serve/fields.h"
#include "serve/params.h"
#include "serve/prompts.h"

namespace bora::serve {
namespace {

constexpr FieldSpec kTokenizeOwn[] = {
    {"model", "string", "a served model", "may be left out when one model is served", "17"},
    {"prompt", "string", "", "a text; or content, or messages", "3"},
    {"content", "string", "", "the same", "3"},
    {"add_special_tokens", "boolean", "", "true for texts: what the tokenizer adds by itself", "3"},
    {"add_special", "boolean", "", "the same", "3"},
    {"parse_special", "boolean", "", "true: control tokens inside a text are recognised", "3"},
    {"return_token_strs", "boolean", "", "the tokens' texts beside the ids", "3"},
    {"with_pieces", "boolean", "", "tokens as {id, piece}", "3"},
};

constexpr FieldSpec kDetokenizeOwn[] = {
    {"model", "string", "a served model", "may be left out when one model is served", "17"},
    {"tokens", "list of ids", "below the vocabulary", "", "[-1]"},
    {"skip_special_tokens", "boolean", "", "false", "3"},
};

const std::vector<FieldSpec>& fields_of_tokenize() {
  // A chat's messages are checked when they are given; a text alone is enough.
  static const std::vector<FieldSpec> all = join_fields({kTokenizeOwn, chat_prompt_fields()});
  return all;
}

std::shared_ptr<const ServedModel> read_model(Services& services, Fields* f) {
  const std::string name = f->text("model", 1024).value_or("");
  if (!f->ok()) return nullptr;
  auto model = services.model(name);
  if (model.ok()) return *model;
  const bool unknown = model.status().code() == Code::kNotFound;
  f->refuse("model", std::move(model).take_status(), unknown ? "model_not_found" : "");
  return nullptr;
}

void encode(Services& services, const ServedModel& model, Fields* f, std::vector<int32_t>* ids) {
  const auto a = f->boolean("add_special_tokens"), b = f->boolean("add_special");
  const bool parse_special = f->boolean("parse_special").value_or(true);
  constexpr size_t kAnySize = 1 << 30;
  const auto prompt = f->text("prompt", kAnySize), content = f->text("content", kAnySize);
  if (f->get("messages") != nullptr) {
    *ids = read_chat_prompt(services, model, f).ids;
    return;
  }
  for (const FieldSpec& spec : chat_prompt_fields()) {
    if (f->get(spec.name) != nullptr) return f->refuse(spec.name, "needs messages");
  }
  if (!prompt && !content) return f->refuse("prompt", "is required: a text, or content, or messages");
  model.text->tokenizer->encode(prompt ? *prompt : *content,
                                {.add_special = a.value_or(b.value_or(true)), .parse_special = parse_special}, ids);
}

void tokenize(Services& services, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  Json body;
  Fault fault;
  if (!parse_body(request, &body, &fault)) return responder->error(fault);
  Fields fields(body);
  const auto model = read_model(services, &fields);
  std::vector<int32_t> ids;
  if (fields.ok()) encode(services, *model, &fields, &ids);
  const bool texts = fields.boolean("return_token_strs").value_or(false);
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  if (!fields.ok()) return responder->error(fields.fault());
  if (!note_unknown(services, body, fields_of_tokenize(), *responder)) return;
  Json tokens = Json::array(), strings = Json::array(), out = Json::object();
  for (const int32_t id : ids) {
    if (pieces) {
      Json piece = Json::object();
      piece.set("id", id);
      piece.set("piece", model->text->tokenizer->token_bytes(id));
      tokens.push_back(std::move(piece));
    } else {
      tokens.push_back(id);
    }
    if (texts) strings.push_back(model->text->tokenizer->token_text(id));
  }
  out.set("count", static_cast<int64_t>(ids.size()));
  out.set("max_model_len", model->max_context);
  out.set("tokens", std::move(tokens));
  if (texts) out.set("token_strs", std::move(strings));
  responder->json(200, out);
}

void detokenize(Services& services, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  Json body;
  Fault fault;
  if (!parse_body(request, &body, &fault)) return responder->error(fault);
  Fields fields(body);
  const auto model = read_model(services, &fields);
  std::vector<int32_t> ids;
  if (fields.ok()) {
    if (fields.get("tokens") == nullptr) fields.refuse("tokens", "is required");
    ids = fields.ids("tokens", size_t{1} << 24, model->text->tokenizer->vocab_size());
  }
  const bool skip = fields.boolean("skip_special_tokens").value_or(false);
  if (!fields.ok()) return responder->error(fields.fault());
  if (!note_unknown(services, body, kDetokenizeOwn, *responder)) return;
  const std::string text = model->text->tokenizer->decode(ids, {.skip_special = skip});
  Json out = Json::object();
  out.set("prompt", text);
  out.set("content", text);
  responder->json(200, out);
}

constexpr std::string_view kTokenizeAliases[] = {"/v1/tokenize"};
constexpr std::string_view kDetokenizeAliases[] = {"/v1/detokenize"};

}  // namespace

extern const Route kTokenize, kDetokenize;
const Route kTokenize = {
    Method::kPost, "/tokenize",          kTokenizeAliases,         "Token ids of a text or a chat",
    Auth::kApiKey, fields_of_tokenize(), R"({"prompt": "Hello"})", tokenize};
const Route kDetokenize = {Method::kPost, "/detokenize",  kDetokenizeAliases,      "The text of token ids",
                           Auth::kApiKey, kDetokenizeOwn, R"({"tokens": [1, 2]})", detokenize};

}  // namespace bora::serve
