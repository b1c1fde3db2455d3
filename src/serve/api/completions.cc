// POST /v1/completions
#include "serve/answers.h"
#include "serve/fields.h"
#include "serve/params.h"

namespace bora::serve {
namespace {

constexpr FieldSpec kOwn[] = {
    {"prompt", "string, list of strings, ids or lists of ids", "<= 64 prompts", "a choice a prompt and n", "[]"},
    {"logprobs", "integer", "0 .. 20", "alternatives a token", "21"},
    {"echo", "boolean", "", "the prompt stands before the answer, with its log-probabilities if asked for", "3"},
    {"best_of", "integer", "n", "only as many as n", "0"},
};

const std::vector<FieldSpec>& fields_of_completions() {
  static const std::vector<FieldSpec> all = join_fields({kOwn, common_fields(), unsupported_fields()});
  return all;
}

constexpr int64_t kDefaultTokens = 16;

class CompletionShape : public Shape {
 public:
  CompletionShape(Services& services, const Ask& ask)
      : tokenizer_(*ask.model->text->tokenizer),
        skip_special_(ask.skip_special),
        logprobs_(ask.request.sampling.logprobs >= 0),
        ids_(ask.return_token_ids),
        echo_(ask.echo),
        n_(ask.request.choices),
        seed_(ask.seed),
        prompts_(ask.prompt_texts) {
    envelope_ = {
        services.new_id("cmpl-"),        "text_completion", ask.model->name,     "bora-" + services.options().version,
        services.clock().unix_seconds(), ask.include_usage, ask.continuous_usage};
    choices_.resize(ask.prompts.size() * static_cast<size_t>(n_));
  }

  void open(std::string* out) override {
    if (!echo_ || logprobs_) return;  // with logprobs the prompt comes token by token
    for (size_t i = 0; i < choices_.size(); ++i)
      chunk(static_cast<int32_t>(i), prompt_of(i), {}, {}, {}, nullptr, out);
  }

  void token(int32_t index, const engine::Event& event, const Totals& totals, std::string* out) override {
    if (event.kind == engine::Event::Kind::kPrompt) return prompt_token(index, event, totals, out);
    Choice& c = choices_[static_cast<size_t>(index)];
    Json logprobs, ids;
    if (logprobs_ && event.token >= 0) {
      c.lists.add(event, event.logprob.bytes, c.offset, true);
      c.offset += characters(event.logprob.bytes);
    }
    if (ids_ && event.token >= 0) c.ids.push_back(int64_t{event.token});
    const std::string text = skip_special_ ? without_special(event, tokenizer_) : event.text;
    if (out == nullptr) {
      c.text += text;
      return;
    }
    if (logprobs_ && !c.lists.empty()) logprobs = c.lists.take();
    if (ids_) std::swap(ids, c.ids), c.ids = Json::array();
    if (text.empty() && logprobs.is_null() && ids.is_null()) return;
    chunk(index, text, std::move(logprobs), std::move(ids), {}, &totals, out);
  }

  void finish(int32_t index, const engine::Event& event, const Totals& totals, std::string* out) override {
    Choice& c = choices_[static_cast<size_t>(index)];
    c.finish_reason = event.finish == engine::Finish::kLength ? "length" : "stop";
    c.text += event.text;
    if (out != nullptr) chunk(index, event.text, {}, {}, c.finish_reason, &totals, out);
  }

  void close(const Totals& totals, std::string* out) override { envelope_.close(totals, out); }

  Json whole(const Totals& totals) override {
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& c = choices_[i];
      std::string text = echo_ ? prompt_of(i) + c.text : std::move(c.text);
      Json choice = choice_json(static_cast<int32_t>(i), "text", std::move(text), logprobs_ ? c.lists.take() : Json(),
                                c.finish_reason);
      if (ids_) choice.set("token_ids", std::move(c.ids));
      choices.push_back(std::move(choice));
    }
    Json out = envelope_.with(std::move(choices));
    out.set("usage", usage_json(totals));
    out.set("seed", seed_);
    return out;
  }

 private:
  struct Choice {
    std::string text, finish_reason;
    LogprobLists lists;
    Json ids = Json::array();
    int64_t offset = 0;
    bool scored = false;  // a token of the prompt came before
  };

  std::string prompt_of(size_t choice) const { return prompts_[choice / static_cast<size_t>(n_)]; }

  // The prompt is scored once and shown in each of its choices.
  void prompt_token(int32_t index, const engine::Event& event, const Totals& totals, std::string* out) {
    const int32_t first = index / n_ * n_;
    for (int32_t i = first; i < first + n_; ++i) {
      Choice& c = choices_[static_cast<size_t>(i)];
      const std::string_view own = tokenizer_.token_bytes(event.token);
      const std::string text(own.empty() ? tokenizer_.token_text(event.token) : own);
      c.lists.add(event, text, c.offset, c.scored);
      c.scored = true;
      c.offset += characters(text);
      if (out != nullptr) chunk(i, text, c.lists.take(), {}, {}, &totals, out);
    }
  }

  void chunk(int32_t index, std::string text, Json logprobs, Json ids, Json finish, const Totals* totals,
             std::string* out) {
    Json choices = Json::array();
    Json choice = choice_json(index, "text", std::move(text), std::move(logprobs), std::move(finish));
    if (!ids.is_null()) choice.set("token_ids", std::move(ids));
    choices.push_back(std::move(choice));
    envelope_.chunk(std::move(choices), totals, out);
  }

  const text::Tokenizer& tokenizer_;
  const bool skip_special_, logprobs_, ids_, echo_;
  const int32_t n_;
  const int64_t seed_;
  const std::vector<std::string> prompts_;
  Envelope envelope_;
  std::vector<Choice> choices_;
};

// One prompt: a text or a list of ids. False when it is neither.
bool read_prompt(const Json& v, const text::Tokenizer& tokenizer, std::vector<int32_t>* ids) {
  if (v.is_string()) {
    tokenizer.encode(v.as_string(), {.add_special = true, .parse_special = true}, ids);
    return true;
  }
  if (!v.is_array()) return false;
  for (const Json& id : v.items()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= tokenizer.vocab_size()) return false;
    ids->push_back(static_cast<int32_t>(id.as_int()));
  }
  return true;
}

void read_prompts(Services& services, Fields* f, Ask* ask) {
  const Json* v = f->get("prompt");
  if (v == nullptr) return f->refuse("prompt", "is required");
  const text::Tokenizer& tokenizer = *ask->model->text->tokenizer;
  const bool many = v->is_array() && v->size() > 0 && !v->items()[0].is_int();
  const size_t count = many ? v->size() : 1;
  const auto most = static_cast<size_t>(services.options().max_prompts);
  if (count > most) return f->refuse("prompt", "may hold at most " + std::to_string(most) + " prompts");
  for (size_t i = 0; i < count; ++i) {
    const Json& one = many ? v->items()[i] : *v;
    const std::string name = many ? "prompt[" + std::to_string(i) + "]" : "prompt";
    std::vector<int32_t> ids;
    if (!read_prompt(one, tokenizer, &ids))
      return f->refuse(name, "must be a string, a list of strings, a list of token ids below " +
                                 std::to_string(tokenizer.vocab_size()) + ", or a list of such lists");
    if (ids.empty()) return f->refuse(name, "must not be empty");
    if (ask->echo) ask->prompt_texts.push_back(one.is_string() ? one.as_string() : tokenizer.decode(ids, {}));
    ask->prompts.push_back(std::move(ids));
  }
}

void handle(Services& services, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  Json body;
  Fault fault;
  if (!parse_body(request, &body, &fault)) return responder->error(fault);
  Fields fields(body);
  Ask ask;
  read_common(services, request, &fields, &ask);
  if (fields.ok()) {
    ask.echo = fields.boolean("echo").value_or(false);
    if (const auto v = fields.integer("logprobs", 0, 20)) ask.request.sampling.logprobs = static_cast<int32_t>(*v);
    if (ask.echo) ask.request.prompt_logprobs = ask.request.sampling.logprobs;
    const auto best = fields.integer("best_of", 1, services.options().max_choices);
    if (best && *best != ask.request.choices)
      fields.refuse("best_of", unimplemented("'best_of' other than n is not supported"), "unsupported_feature");
  }
  if (fields.ok()) read_prompts(services, &fields, &ask);
  if (fields.ok()) fit_to_context("prompt", kDefaultTokens, &fields, &ask);
  if (!fields.ok()) return responder->error(fields.fault());
  if (!note_unknown(services, body, fields_of_completions(), *responder)) return;
  responder->header("x-seed", std::to_string(ask.seed));
  auto shape = std::make_unique<CompletionShape>(services, ask);
  services.generations().start(std::move(ask), std::move(shape), std::move(responder));
}

constexpr std::string_view kAliases[] = {"/completions"};

}  // namespace

extern const Route kCompletions;
const Route kCompletions = {Method::kPost,
                            "/v1/completions",
                            kAliases,
                            "Continues texts",
                            Auth::kApiKey,
                            fields_of_completions(),
                            R"({"prompt": "Hello", "max_tokens": 8})",
                            handle};

}  // namespace bora::serve
