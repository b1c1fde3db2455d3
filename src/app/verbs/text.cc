// tokenize, detokenize, render, parse: line-by-line tools over text.
#include <cstdio>

#include "app/loader.h"
#include "app/verb.h"
#include "engine/model_text.h"
#include "text/chat/chat.h"

namespace bora::app {
namespace {

bool flag_of(const Json& line, std::string_view key, bool fallback) {
  const Json* v = line.find(key);
  return v != nullptr && v->is_bool() ? v->as_bool() : fallback;
}

Result<std::string> text_of(const Json& line, std::string_view key) {
  const Json* v = line.find(key);
  if (v == nullptr || !v->is_string()) return invalid_argument("'" + std::string(key) + "' must be a string");
  return v->as_string();
}

Result<std::string> from_base64(std::string_view in) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : in) {
    if (c == '=') break;
    const int v = c >= 'A' && c <= 'Z'   ? c - 'A'
                  : c >= 'a' && c <= 'z' ? c - 'a' + 26
                  : c >= '0' && c <= '9' ? c - '0' + 52
                  : c == '+'             ? 62
                  : c == '/'             ? 63
                                         : -1;
    if (v < 0) return invalid_argument("'bytes' is no base64");
    bits = bits << 6 | static_cast<uint32_t>(v);
    if (++count % 4 != 1) out.push_back(static_cast<char>(bits >> (6 - 2 * ((count - 1) % 4)) & 255u));
  }
  return out;
}

constexpr Flag kTokenizerFlags[] = {{"--model", Flag::Kind::kText, "take the tokenizer of this model"},
                                    {"--tokenizer", Flag::Kind::kText, "a tokenizer.json"}};

Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(const Args& args) {
  if (args.has("--tokenizer")) return load_tokenizer_file(*make_os_file_system(), args.text("--tokenizer"));
  if (!args.has("--model")) return invalid_argument("give --model MODEL or --tokenizer tokenizer.json");
  BORA_ASSIGN(std::unique_ptr<Source> source, open_source(args.text("--model")));
  return engine::load_tokenizer(*source->checkpoint);
}

Result<Json> tokenize_line(const Json& line, void* state, Json*) {
  std::string input;
  if (line.contains("bytes")) {
    BORA_ASSIGN(const std::string coded, text_of(line, "bytes"));
    BORA_ASSIGN(input, from_base64(coded));
  } else {
    BORA_ASSIGN(input, text_of(line, "text"));
  }
  std::vector<text::TokenId> ids;
  const text::EncodeOptions options{flag_of(line, "add_special", true), flag_of(line, "parse_special", true)};
  static_cast<const text::Tokenizer*>(state)->encode(input, options, &ids);
  Json list = Json::array();
  for (text::TokenId id : ids) list.push_back(id);
  Json out = Json::object();
  out.set("ids", std::move(list));
  return out;
}

Status tokenize(const Args& args, Streams& io) {
  BORA_ASSIGN(std::unique_ptr<text::Tokenizer> t, tokenizer_of(args));
  return each_line(io, tokenize_line, t.get());
}

Result<Json> detokenize_line(const Json& line, void* state, Json*) {
  const text::Tokenizer& t = *static_cast<const text::Tokenizer*>(state);
  BORA_ASSIGN(const std::vector<int32_t> ids, read_ids(line, "ids"));
  const text::DecodeOptions options{flag_of(line, "skip_special", false)};
  Json out = Json::object();
  if (!flag_of(line, "stream", false)) {
    out.set("text", t.decode(ids, options));
    return out;
  }
  std::vector<int32_t> prompt;
  if (line.contains("prompt_ids")) {
    BORA_ASSIGN(prompt, read_ids(line, "prompt_ids"));
  }
  auto decoder = t.stream(options, prompt);
  Json pieces = Json::array();
  for (int32_t id : ids) {
    std::string piece;
    decoder->push(id, &piece);
    pieces.push_back(std::move(piece));
  }
  std::string tail;
  decoder->finish(&tail);
  out.set("pieces", std::move(pieces));
  out.set("tail", std::move(tail));
  return out;
}

Status detokenize(const Args& args, Streams& io) {
  BORA_ASSIGN(std::unique_ptr<text::Tokenizer> t, tokenizer_of(args));
  return each_line(io, detokenize_line, t.get());
}

constexpr Flag kRenderFlags[] = {{"--model", Flag::Kind::kText, "take the chat template of this model"},
                                 {"--template", Flag::Kind::kText, "a template file"},
                                 {"--now", Flag::Kind::kText, "the clock of strftime_now, 2026-01-02T03:04:05Z"},
                                 {"--spans", Flag::Kind::kSwitch, "also say who wrote which part"}};

struct RenderState {
  std::shared_ptr<const text::Template> parsed;
  text::RenderOptions options;
  bool spans = false;
};

Result<Json> render_line(const Json& line, void* state, Json* extra) {
  const RenderState& s = *static_cast<const RenderState*>(state);
  std::shared_ptr<const text::Template> parsed = s.parsed;
  if (line.contains("template")) {
    BORA_ASSIGN(const std::string source, text_of(line, "template"));
    auto own = text::parse_template(source, s.options.limits);
    extra->set("raised_by_template", false);
    if (!own.ok()) return std::move(own).take_status();
    parsed = *std::move(own);
  }
  if (parsed == nullptr)
    return invalid_argument("no template: give --model, --template or a line's own \"template\"");
  const Json* context = line.find("context");
  if (context == nullptr || !context->is_object()) return invalid_argument("'context' must be an object");
  text::Rendered rendered;
  text::RenderError error;
  if (!parsed->render(*context, s.options, &rendered, &error)) {
    extra->set("raised_by_template", error.raised_by_template);
    return error.status;
  }
  Json out = Json::object();
  out.set("text", rendered.prompt.text);
  if (s.spans) {
    Json list = Json::array();
    uint32_t at = 0;
    for (const text::SpanText::Run& r : rendered.prompt.runs) {
      Json span = Json::object();
      span.set("text", rendered.prompt.text.substr(at, r.end - at));
      span.set("from_template", r.from_template);
      at = r.end;
      list.push_back(std::move(span));
    }
    out.set("spans", std::move(list));
  }
  return out;
}

Status render(const Args& args, Streams& io) {
  RenderState state;
  state.spans = args.has("--spans");
  if (args.has("--now")) {
    text::CivilTime& t = state.options.now;
    if (std::sscanf(args.text("--now").c_str(), "%d-%d-%dT%d:%d:%d", &t.year, &t.month, &t.day, &t.hour, &t.minute,
                    &t.second) != 6) {
      return invalid_argument("--now must look like 2026-01-02T03:04:05Z");
    }
  }
  std::string source;
  if (args.has("--template")) {
    BORA_ASSIGN(source, make_os_file_system()->read(args.text("--template"), 16u << 20));
  } else if (args.has("--model")) {
    BORA_ASSIGN(std::unique_ptr<Source> model, open_source(args.text("--model")));
    BORA_ASSIGN(source, engine::load_template(*model->checkpoint));
  }
  if (!source.empty()) {
    BORA_ASSIGN(state.parsed, text::parse_template(source, state.options.limits));
  }
  return each_line(io, render_line, &state);
}

constexpr Flag kParseFlags[] = {{"--format", Flag::Kind::kText, "an answer format by name"},
                                {"--model", Flag::Kind::kText, "the format of this model's template"},
                                {"--split", Flag::Kind::kInt, "feed so many bytes at a time; 0 = all", "0"}};

struct ParseState {
  const text::AnswerFormat* format = nullptr;
  size_t split = 0;
};

Result<Json> parse_line(const Json& line, void* state, Json*) {
  const ParseState& s = *static_cast<const ParseState*>(state);
  BORA_ASSIGN(const std::string raw, text_of(line, "raw"));
  text::AnswerOptions options;
  options.tools = line.find("tools");
  options.reasoning_open = flag_of(line, "reasoning_open", false);
  const Json* finish = line.find("finish");
  const bool cut = finish != nullptr && *finish == Json("length");
  const text::Answer a =
      text::parse_answer(*s.format, options, raw, cut ? text::AnswerEnd::kLength : text::AnswerEnd::kStop, s.split);
  Json out = Json::object(), calls = Json::array();
  for (const text::ToolCall& c : a.tool_calls) {
    Json call = Json::object();
    call.set("name", c.name);
    call.set("arguments", c.arguments);
    calls.push_back(std::move(call));
  }
  out.set("content", a.content);
  out.set("reasoning_content", a.reasoning);
  out.set("tool_calls", std::move(calls));
  out.set("finish_reason", a.finish_reason);
  return out;
}

Status parse(const Args& args, Streams& io) {
  ParseState state;
  state.split = static_cast<size_t>(std::max<int64_t>(0, args.integer("--split")));
  if (args.has("--format")) {
    state.format = text::find_answer_format(args.text("--format"));
    if (state.format == nullptr) {
      std::string known;
      for (const text::AnswerFormat* f : text::answer_formats())
        known += (known.empty() ? "" : " ") + std::string(f->name);
      return invalid_argument("no answer format '" + args.text("--format") + "'; known: " + known);
    }
  } else if (args.has("--model")) {
    BORA_ASSIGN(std::unique_ptr<Source> model, open_source(args.text("--model")));
    BORA_ASSIGN(const std::string source, engine::load_template(*model->checkpoint));
    state.format = &text::choose_answer_format(source);
  } else {
    return invalid_argument("give --format NAME or --model MODEL");
  }
  return each_line(io, parse_line, &state);
}

}  // namespace

extern const Verb kTokenize;
const Verb kTokenize{.name = "tokenize",
                     .summary = "Text to token ids, a JSON object a line",
                     .flags = kTokenizerFlags,
                     .examples = "  echo '{\"text\": \"Hello\"}' | bora tokenize --model model.gguf",
                     .run = tokenize};
extern const Verb kDetokenize;
const Verb kDetokenize{
    .name = "detokenize",
    .summary = "Token ids to text, whole or as a stream gives it",
    .flags = kTokenizerFlags,
    .examples = "  echo '{\"ids\": [19556, 28], \"stream\": true}' | bora detokenize --model model.gguf",
    .run = detokenize};
extern const Verb kRender;
const Verb kRender{.name = "render",
                   .summary = "Messages to a prompt by a chat template",
                   .flags = kRenderFlags,
                   .examples =
                       "  echo '{\"context\": {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
                       "\"add_generation_prompt\": true}}' | bora render --model model.gguf --spans",
                   .run = render};
extern const Verb kParse;
const Verb kParse{.name = "parse",
                  .summary = "A model's raw output to content, reasoning and tool calls",
                  .flags = kParseFlags,
                  .examples = "  echo '{\"raw\": \"Hello\"}' | bora parse --format hermes",
                  .run = parse};

}  // namespace bora::app
