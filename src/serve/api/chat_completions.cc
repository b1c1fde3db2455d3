// POST /v1/chat/completions
#include "serve/answers.h"
#include "serve/fields.h"
#include "serve/params.h"
#include "serve/prompts.h"

namespace bora::serve {
namespace {

constexpr FieldSpec kOwn[] = {
    {"logprobs", "boolean", "", "log-probabilities of the tokens", "3"},
    {"top_logprobs", "integer", "0 .. 20", "alternatives a token; needs logprobs", "21"},
    {"tool_choice", "string", "none", "anything else needs tools", "\"required\""},
    {"parallel_tool_calls", "boolean", "", "without effect while there are no tools", "3"},
    {"include_reasoning", "boolean", "", "false: reasoning is left out of the answer", "3"},
    {"echo", "boolean", "false", "not supported", "true"},
};

const std::vector<FieldSpec>& fields_of_chat() {
  static const std::vector<FieldSpec> all =
      join_fields({chat_prompt_fields(), kOwn, common_fields(), unsupported_fields()});
  return all;
}

class ChatShape : public Shape {
 public:
  ChatShape(Services& services, const Ask& ask, bool include_reasoning)
      : tokenizer_(*ask.model->text->tokenizer),
        skip_special_(ask.skip_special && !ask.model->parser_forced),
        logprobs_(ask.request.sampling.logprobs >= 0),
        ids_(ask.return_token_ids),
        show_reasoning_(include_reasoning),
        seed_(ask.seed) {
    envelope_ = {services.new_id("chatcmpl-"),
                 ask.stream ? "chat.completion.chunk" : "chat.completion",
                 ask.model->name,
                 "bora-" + services.options().version,
                 services.clock().unix_seconds(),
                 ask.include_usage,
                 ask.continuous_usage};
    // Without tools nothing is a call: only reasoning is taken apart, unless the operator named a format.
    const text::AnswerFormat* format = text::find_answer_format("plain");
    if (ask.model->parser_forced || format == nullptr) format = ask.model->text->answers;
    text::AnswerOptions options;
    options.reasoning_open = ask.reasoning_open;
    choices_.resize(static_cast<size_t>(ask.request.choices));
    for (Choice& choice : choices_) choice.parser = format->make(options);
    if (ask.return_token_ids) prompt_ids_ = ask.prompts[0];
  }

  void open(std::string* out) override {
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json delta = Json::object();
      delta.set("role", "assistant");
      delta.set("content", "");
      chunk(static_cast<int32_t>(i), std::move(delta), {}, {}, nullptr, out);
    }
  }

  void token(int32_t index, const engine::Event& event, const Totals& totals, std::string* out) override {
    Choice& c = choices_[static_cast<size_t>(index)];
    std::vector<text::AnswerDelta> deltas;
    push(c, event, &deltas);
    bool reasoned = c.reasoning_now;
    for (const auto& d : deltas) reasoned = d.kind == text::AnswerDelta::Kind::kReasoning;
    c.reasoning_now = reasoned;
    if (event.token >= 0 && reasoned) ++reasoning_;
    Json logprob, ids;
    if (logprobs_ && event.token >= 0) logprob = chat_logprob(event);
    if (ids_ && event.token >= 0) ids = Json(int64_t{event.token});
    emit(index, deltas, std::move(logprob), std::move(ids), &totals, out);
  }

  void finish(int32_t index, const engine::Event& event, const Totals& totals, std::string* out) override {
    Choice& c = choices_[static_cast<size_t>(index)];
    std::vector<text::AnswerDelta> deltas;
    push(c, event, &deltas);
    const bool length = event.finish == engine::Finish::kLength;
    c.finish_reason = c.parser->finish(length ? text::AnswerEnd::kLength : text::AnswerEnd::kStop, &deltas);
    emit(index, deltas, {}, {}, &totals, out);
    if (out != nullptr) chunk(index, Json::object(), {}, c.finish_reason, &totals, out);
  }

  void close(const Totals& totals, std::string* out) override { envelope_.close(totals, out); }

  Json whole(const Totals& totals) override {
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& c = choices_[i];
      Json message = Json::object(), logprobs;
      message.set("role", "assistant");
      const bool calls_only = c.content.empty() && c.calls.size() > 0;
      message.set("content", calls_only ? Json() : Json(std::move(c.content)));
      if (!c.reasoning.empty()) message.set("reasoning_content", std::move(c.reasoning));
      if (c.calls.size() > 0) message.set("tool_calls", std::move(c.calls));
      if (logprobs_) {
        logprobs = Json::object();
        logprobs.set("content", std::move(c.logprobs));
      }
      Json choice =
          choice_json(static_cast<int32_t>(i), "message", std::move(message), std::move(logprobs), c.finish_reason);
      if (ids_) choice.set("token_ids", std::move(c.ids));
      choices.push_back(std::move(choice));
    }
    Json out = envelope_.with(std::move(choices));
    out.set("usage", usage_json(totals));
    out.set("seed", seed_);
    if (ids_) out.set("prompt_token_ids", prompt_list());
    return out;
  }

  int32_t reasoning_tokens() const override { return reasoning_; }

 private:
  struct Choice {
    std::unique_ptr<text::AnswerParser> parser;
    std::string content, reasoning, finish_reason;
    Json calls = Json::array(), logprobs = Json::array(), ids = Json::array();
    bool reasoning_now = false;
  };

  void push(Choice& c, const engine::Event& event, std::vector<text::AnswerDelta>* deltas) {
    const std::string text = skip_special_ ? without_special(event, tokenizer_) : event.text;
    if (!text.empty()) c.parser->push({text, event.special}, deltas);
  }

  Json prompt_list() const {
    Json list = Json::array();
    for (const int32_t id : prompt_ids_) list.push_back(int64_t{id});
    return list;
  }

  void chunk(int32_t index, Json delta, Json logprobs, Json finish, const Totals* totals, std::string* out) {
    Json choices = Json::array();
    choices.push_back(choice_json(index, "delta", std::move(delta), std::move(logprobs), std::move(finish)));
    envelope_.chunk(std::move(choices), totals, out);
  }

  // One delta of text, reasoning or calls as the API words it; calls collect in the whole answer.
  void add_delta(Choice& c, const text::AnswerDelta& d, Json* delta) {
    using Kind = text::AnswerDelta::Kind;
    const auto append = [delta](std::string_view key, const std::string& text) {
      const Json* before = delta->find(key);
      delta->set(key, (before != nullptr ? before->as_string() : std::string()) + text);
    };
    if (d.kind == Kind::kContent) {
      c.content += d.text;
      append("content", d.text);
    } else if (d.kind == Kind::kReasoning) {
      if (!show_reasoning_) return;
      c.reasoning += d.text;
      append("reasoning_content", d.text);
    } else {
      const auto at = static_cast<size_t>(d.tool_index);
      Json function = Json::object(), call = Json::object(), list = Json::array();
      call.set("index", d.tool_index);
      if (d.kind == Kind::kToolName) {
        call.set("id", envelope_.id + "-call-" + std::to_string(d.tool_index));
        call.set("type", "function");
        function.set("name", d.text);
        function.set("arguments", "");
        Json kept = call;
        kept.set("function", function);
        c.calls.push_back(std::move(kept));
      } else {
        function.set("arguments", d.text);
        if (at < c.calls.size()) {
          Json kept = *c.calls.items()[at].find("function");
          kept.set("arguments", kept.find("arguments")->as_string() + d.text);
          c.calls.items()[at].set("function", std::move(kept));
        }
      }
      call.set("function", std::move(function));
      if (const Json* before = delta->find("tool_calls")) list = *before;
      list.push_back(std::move(call));
      delta->set("tool_calls", std::move(list));
    }
  }

  void emit(int32_t index, const std::vector<text::AnswerDelta>& deltas, Json logprob, Json id, const Totals* totals,
            std::string* out) {
    Choice& c = choices_[static_cast<size_t>(index)];
    Json delta = Json::object(), logprobs;
    for (const text::AnswerDelta& d : deltas) add_delta(c, d, &delta);
    if (out == nullptr) {
      if (!logprob.is_null()) c.logprobs.push_back(std::move(logprob));
      if (!id.is_null()) c.ids.push_back(std::move(id));
      return;
    }
    if (delta.size() == 0 && logprob.is_null() && id.is_null()) return;
    if (!logprob.is_null()) {
      Json list = Json::array();
      list.push_back(std::move(logprob));
      logprobs = Json::object();
      logprobs.set("content", std::move(list));
    }
    if (delta.size() == 0) delta.set("content", "");
    if (!id.is_null()) {
      Json list = Json::array();
      list.push_back(std::move(id));
      delta.set("token_ids", std::move(list));
    }
    chunk(index, std::move(delta), std::move(logprobs), {}, totals, out);
  }

  const text::Tokenizer& tokenizer_;
  const bool skip_special_, logprobs_, ids_, show_reasoning_;
  const int64_t seed_;
  Envelope envelope_;
  std::vector<Choice> choices_;
  std::vector<int32_t> prompt_ids_;
  int32_t reasoning_ = 0;
};

void read_own(Fields* f, Ask* ask, bool* include_reasoning) {
  const bool logprobs = f->boolean("logprobs").value_or(false);
  const auto top = f->integer("top_logprobs", 0, 20);
  if (top && *top > 0 && !logprobs) f->refuse("top_logprobs", "needs logprobs to be true");
  if (logprobs) ask->request.sampling.logprobs = static_cast<int32_t>(top.value_or(0));
  if (const Json* choice = f->get("tool_choice")) {
    if (!choice->is_string() || (choice->as_string() != "none" && choice->as_string() != "auto"))
      f->refuse("tool_choice", "needs tools, which are not supported yet; leave it out", "unsupported_feature");
    else if (choice->as_string() == "auto")
      f->refuse("tool_choice", "needs tools; leave it out");
  }
  f->boolean("parallel_tool_calls");
  if (f->boolean("echo").value_or(false))
    f->refuse("echo", unimplemented("'echo' is not supported in chats; leave it out"), "unsupported_feature");
  *include_reasoning = f->boolean("include_reasoning").value_or(true);
}

void handle(Services& services, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  Json body;
  Fault fault;
  if (!parse_body(request, &body, &fault)) return responder->error(fault);
  Fields fields(body);
  Ask ask;
  bool include_reasoning = true;
  read_common(services, request, &fields, &ask);
  if (fields.ok()) read_own(&fields, &ask, &include_reasoning);
  if (fields.ok()) {
    ChatPrompt prompt = read_chat_prompt(services, *ask.model, &fields);
    ask.reasoning_open = prompt.reasoning_open;
    ask.prompts.push_back(std::move(prompt.ids));
  }
  if (fields.ok()) fit_to_context("messages", -1, &fields, &ask);
  if (!fields.ok()) return responder->error(fields.fault());
  if (!note_unknown(services, body, fields_of_chat(), *responder)) return;
  responder->header("x-seed", std::to_string(ask.seed));
  auto shape = std::make_unique<ChatShape>(services, ask, include_reasoning);
  services.generations().start(std::move(ask), std::move(shape), std::move(responder));
}

constexpr std::string_view kAliases[] = {"/chat/completions"};

}  // namespace

extern const Route kChatCompletions;
const Route kChatCompletions = {Method::kPost,
                                "/v1/chat/completions",
                                kAliases,
                                "Answers a chat",
                                Auth::kApiKey,
                                fields_of_chat(),
                                R"({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8})",
                                handle};

}  // namespace bora::serve
