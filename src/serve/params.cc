#include "serve/params.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace bora::serve {
namespace {

using engine::SamplingParams;

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

constexpr FieldSpec kCommon[] = {
    {"model", "string", "a served model", "may be left out when one model is served", "17"},
    {"max_tokens", "integer", "0 .. context", "tokens of the answer at most; 0 = the prompt only", "-1"},
    {"max_completion_tokens", "integer", "0 .. context", "the same", "-1"},
    {"min_tokens", "integer", "0 .. max_tokens", "no end before that many", "-1"},
    {"temperature", "number", "0 .. 2", "1; 0 = greedy", "2.5"},
    {"top_p", "number", "(0, 1]", "1", "0"},
    {"top_k", "integer", ">= -1", "0 = all", "-2"},
    {"min_p", "number", "0 .. 1", "0", "1.5"},
    {"typical_p", "number", "(0, 1]", "1", "0"},
    {"top_n_sigma", "number", "-1 = off, > 0", "-1", "-2"},
    {"xtc_probability", "number", "0 .. 1", "0", "1.5"},
    {"xtc_threshold", "number", "0 .. 0.5", "0.1", "0.6"},
    {"dynatemp_range", "number", ">= 0", "0", "-1"},
    {"dynatemp_exponent", "number", "> 0", "1", "0"},
    {"mirostat", "integer", "0 .. 2", "0; replaces the other truncations", "3"},
    {"mirostat_tau", "number", "> 0", "5", "0"},
    {"mirostat_eta", "number", "(0, 1]", "0.1", "0"},
    {"seed", "integer", "int64", "drawn and reported when absent", "1.5"},
    {"presence_penalty", "number", "-2 .. 2", "0, over the answer", "2.5"},
    {"frequency_penalty", "number", "-2 .. 2", "0, over the answer", "-2.5"},
    {"repetition_penalty", "number", "(0, 10]", "1, over prompt and answer", "0"},
    {"repeat_penalty", "number", "(0, 10]", "1, over the last repeat_last_n tokens", "0"},
    {"repeat_last_n", "integer", ">= -1", "64 with repeat_penalty; -1 = all", "-2"},
    {"dry_multiplier", "number", ">= 0", "0 = off", "-1"},
    {"dry_base", "number", ">= 1", "1.75", "0.5"},
    {"dry_allowed_length", "integer", ">= 1", "2", "0"},
    {"dry_penalty_last_n", "integer", ">= -1", "-1 = all", "-2"},
    {"dry_sequence_breakers", "list of strings", "<= 64", "newline, colon, quote, star", "[3]"},
    {"logit_bias", "object or list of pairs", "token id to -100 .. 100", "false bans a token", "{\"a\": 1}"},
    {"bad_words", "list of strings", "<= 64", "texts that may not be written", "[\"\"]"},
    {"allowed_token_ids", "list of ids", "below the vocabulary", "only these", "[-1]"},
    {"stop", "string or list", "<= 16, each 1 to 256 bytes", "ends the answer; not returned", "[\"\"]"},
    {"stop_token_ids", "list of ids", "below the vocabulary", "end the answer", "[-1]"},
    {"include_stop_str_in_output", "boolean", "", "the stop text stays in the answer", "3"},
    {"ignore_eos", "boolean", "", "the model's end tokens do not end the answer", "3"},
    {"n", "integer", "1 .. 8", "answers a prompt", "0"},
    {"stream", "boolean", "", "server-sent events", "3"},
    {"stream_options", "object", "include_usage, continuous_usage_stats", "", "{\"include_usage\": 3}"},
    {"priority", "integer", "int32", "higher goes first", "1e12"},
    {"deadline_ms", "integer", ">= 1", "an answer later than that is of no use", "0"},
    {"cache_salt", "string", "<= 256 bytes", "isolates the prefix cache", "17"},
    {"cache_prompt", "boolean", "", "false: the prefix cache is not consulted", "3"},
    {"return_token_ids", "boolean", "", "ids beside the text", "3"},
    {"skip_special_tokens", "boolean", "", "true: control tokens do not show in the text", "3"},
    {"user", "any", "", "accepted, without effect"},
    {"metadata", "any", "", "accepted, without effect"},
    {"service_tier", "any", "", "accepted, without effect"},
    {"store", "any", "", "accepted, without effect"},
    {"prompt_cache_key", "any", "", "accepted, without effect"},
    {"safety_identifier", "any", "", "accepted, without effect"},
};

constexpr FieldSpec kUnsupported[] = {
    {"structured_outputs", "unsupported", "", "", "{\"regex\": \"a\"}"},
    {"guided_json", "unsupported", "", "", "{\"a\": 1}"},
    {"guided_regex", "unsupported", "", "", "\"a\""},
    {"guided_choice", "unsupported", "", "", "[\"a\"]"},
    {"guided_grammar", "unsupported", "", "", "\"a\""},
    {"grammar", "unsupported", "", "", "\"a\""},
    {"json_schema", "unsupported", "", "", "{\"a\": 1}"},
    {"regex", "unsupported", "", "", "\"a\""},
    {"ebnf", "unsupported", "", "", "\"a\""},
    {"lark", "unsupported", "", "", "\"a\""},
    {"stop_regex", "unsupported", "", "", "\"a\""},
    {"samplers", "unsupported", "", "", "[\"top_k\"]"},
    {"adaptive_p", "unsupported", "", "", "0.5"},
    {"prompt_logprobs", "unsupported", "", "", "1"},
    {"post_sampling_probs", "unsupported", "", "", "true"},
    {"truncate_prompt_tokens", "unsupported", "", "", "10"},
    {"repetition_detection", "unsupported", "", "", "{\"a\": 1}"},
    {"lora_id", "unsupported", "", "", "\"a\""},
    {"lora", "unsupported", "", "", "[{\"id\": 1}]"},
    {"adapter_id", "unsupported", "", "", "\"a\""},
    {"rag", "unsupported", "", "", "true"},
    {"thinking_token_budget", "unsupported", "", "", "5"},
    {"chat_template", "unsupported", "", "", "\"a\""},
    {"modalities", "unsupported", "", "", "[\"audio\"]"},
    {"audio", "unsupported", "", "", "{\"voice\": \"a\"}"},
    {"prediction", "unsupported", "", "", "{\"type\": \"content\"}"},
    {"web_search_options", "unsupported", "", "", "{\"a\": 1}"},
    {"suffix", "unsupported", "", "", "\"a\""},
    {"tools", "unsupported", "", "", "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"},
    {"functions", "unsupported", "", "", "[{\"name\": \"f\"}]"},
    {"function_call", "unsupported", "", "", "{\"name\": \"f\"}"},
    {"response_format", "unsupported but {type: text}", "", "", "{\"type\": \"json_object\"}"},
};

// Null, false, an empty list, object or text ask for nothing; so does -1 where it means no limit.
bool asks_nothing(std::string_view name, const Json& v) {
  if (v.is_null() || (v.is_bool() && !v.as_bool())) return true;
  if (v.is_array() || v.is_object()) {
    if (v.size() == 0) return true;
  }
  if (v.is_string() && (v.as_string().empty() || v.as_string() == "none" || v.as_string() == "auto"))
    return v.as_string().empty() || name == "function_call";
  if (name == "modalities" && v.is_array())
    return v.size() == 1 && v.items()[0].is_string() && v.items()[0].as_string() == "text";
  if (name == "response_format" && v.is_object()) {
    const Json* type = v.find("type");
    return type != nullptr && type->is_string() && type->as_string() == "text";
  }
  return name == "thinking_token_budget" && v.is_int() && v.as_int() == -1;
}

void refuse_unsupported(Fields* fields) {
  for (const FieldSpec& spec : kUnsupported) {
    const Json* v = fields->get(spec.name);
    if (v == nullptr || asks_nothing(spec.name, *v)) continue;
    fields->refuse(spec.name, unimplemented("'" + std::string(spec.name) + "' is not supported; leave it out"),
                   "unsupported_feature");
    return;
  }
}

std::string range_text(double low, double high, bool open_low) {
  std::string text = open_low ? "above " : "at least ";
  text += Json(low).dump();
  if (high < 1e300) text += " and at most " + Json(high).dump();
  return text;
}

bool read_id(std::string_view text, int32_t vocab, int32_t* id) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), *id);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() && *id >= 0 && *id < vocab;
}

// One bias: a number, or false for a ban.
bool read_bias(const Json& value, int32_t id, SamplingParams* s) {
  if (value.is_bool() && !value.as_bool()) {
    s->banned_tokens.push_back(id);
    return true;
  }
  if (!value.is_number() || !(std::fabs(value.as_double()) <= 100)) return false;
  s->logit_bias.emplace_back(id, static_cast<float>(value.as_double()));
  return true;
}

void read_logit_bias(Fields* fields, const text::Tokenizer& tokenizer, SamplingParams* s) {
  const Json* v = fields->get("logit_bias");
  if (v == nullptr) return;
  constexpr std::string_view kShape = "must map token ids to numbers from -100 to 100, or be a list of such pairs";
  const int32_t vocab = tokenizer.vocab_size();
  bool good = v->is_object() || v->is_array();
  if (good && v->size() > 65536) good = false;
  if (v->is_object()) {
    for (const Json::Member& m : v->members()) {
      int32_t id = 0;
      if (!(good = good && read_id(m.first, vocab, &id) && read_bias(m.second, id, s))) break;
    }
  } else if (good) {
    for (const Json& pair : v->items()) {
      good = pair.is_array() && pair.size() == 2 && pair.items()[0].is_int() && pair.items()[0].as_int() >= 0 &&
             pair.items()[0].as_int() < vocab &&
             read_bias(pair.items()[1], static_cast<int32_t>(pair.items()[0].as_int()), s);
      if (!good) break;
    }
  }
  if (!good) fields->refuse("logit_bias", std::string(kShape));
}

void read_numbers(Fields* f, SamplingParams* s) {
  struct Number {
    std::string_view name;
    double low, high;
    bool open_low;
    float SamplingParams::*member;
  };
  constexpr double kNone = 1e30;
  constexpr Number kNumbers[] = {
      {"temperature", 0, 2, false, &SamplingParams::temperature},
      {"top_p", 0, 1, true, &SamplingParams::top_p},
      {"min_p", 0, 1, false, &SamplingParams::min_p},
      {"typical_p", 0, 1, true, &SamplingParams::typical_p},
      {"xtc_probability", 0, 1, false, &SamplingParams::xtc_probability},
      {"xtc_threshold", 0, 0.5, false, &SamplingParams::xtc_threshold},
      {"dynatemp_range", 0, 100, false, &SamplingParams::dynatemp_range},
      {"dynatemp_exponent", 0, 100, true, &SamplingParams::dynatemp_exponent},
      {"mirostat_tau", 0, kNone, true, &SamplingParams::mirostat_tau},
      {"mirostat_eta", 0, 1, true, &SamplingParams::mirostat_eta},
      {"presence_penalty", -2, 2, false, &SamplingParams::presence_penalty},
      {"frequency_penalty", -2, 2, false, &SamplingParams::frequency_penalty},
      {"dry_multiplier", 0, kNone, false, &SamplingParams::dry_multiplier},
      {"dry_base", 1, kNone, false, &SamplingParams::dry_base},
      {"repetition_penalty", 0, 10, true, &SamplingParams::repetition_penalty},
  };
  for (const Number& n : kNumbers) {
    if (const auto v = f->number(n.name, n.low, n.high, n.open_low)) s->*n.member = static_cast<float>(*v);
  }
  if (const auto v = f->number("top_n_sigma", -1, kNone)) {
    if (*v != -1 && *v <= 0) f->refuse("top_n_sigma", "must be -1 (off) or above 0");
    s->top_n_sigma = static_cast<float>(*v);
  }
  // This name counts the last repeat_last_n tokens, the other all: each keeps its meaning.
  const auto last = f->integer("repeat_last_n", -1, kMaxInt32);
  if (const auto v = f->number("repeat_penalty", 0, 10, true)) {
    if (f->get("repetition_penalty") != nullptr)
      f->refuse("repeat_penalty", "give repetition_penalty or repeat_penalty, not both");
    s->repetition_penalty = static_cast<float>(*v);
    s->repetition_last_n = static_cast<int32_t>(last.value_or(64));
  }
}

void read_integers(Fields* f, SamplingParams* s) {
  if (const auto v = f->integer("top_k", -1, kMaxInt32)) s->top_k = static_cast<int32_t>(*v < 0 ? 0 : *v);
  if (const auto v = f->integer("mirostat", 0, 2)) s->mirostat = static_cast<int32_t>(*v);
  if (const auto v = f->integer("dry_allowed_length", 1, kMaxInt32)) s->dry_allowed_length = static_cast<int32_t>(*v);
  if (const auto v = f->integer("dry_penalty_last_n", -1, kMaxInt32)) s->dry_last_n = static_cast<int32_t>(*v);
  if (const auto v = f->boolean("ignore_eos")) s->ignore_eos = *v;
  if (const auto v = f->boolean("include_stop_str_in_output")) s->include_stop = *v;
}

void read_lists(Fields* f, const text::Tokenizer& tokenizer, SamplingParams* s) {
  const int32_t vocab = tokenizer.vocab_size();
  if (f->get("dry_sequence_breakers") != nullptr) s->dry_breakers = f->texts("dry_sequence_breakers", 64, 256);
  s->stop = f->texts("stop", 16, 256);
  s->stop_tokens = f->ids("stop_token_ids", 256, vocab);
  s->allowed_tokens = f->ids("allowed_token_ids", static_cast<size_t>(vocab), vocab);
  // A word at the beginning of a text and one behind a space have different ids: both are banned.
  for (const std::string& word : f->texts("bad_words", 64, 256)) {
    for (const std::string& form : {word, " " + word}) {
      std::vector<int32_t> ids;
      tokenizer.encode(form, {.add_special = false, .parse_special = false}, &ids);
      if (!ids.empty()) s->bad_words.push_back(std::move(ids));
    }
  }
  read_logit_bias(f, tokenizer, s);
}

void read_stream(Fields* f, Ask* ask) {
  ask->stream = f->boolean("stream").value_or(false);
  const Json* options = f->get("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return f->refuse("stream_options", "must be an object");
  for (const std::string_view name : {"include_usage", "continuous_usage_stats"}) {
    const Json* v = options->find(name);
    if (v == nullptr || v->is_null()) continue;
    if (!v->is_bool()) return f->refuse("stream_options", "'" + std::string(name) + "' must be true or false");
    (name == "include_usage" ? ask->include_usage : ask->continuous_usage) = v->as_bool();
  }
}

void read_accepted(Fields* f) {
  size_t size = 0;
  for (const std::string_view name :
       {"user", "metadata", "service_tier", "store", "prompt_cache_key", "safety_identifier"}) {
    if (const Json* v = f->get(name)) size += v->dump().size();
    if (size > 65536) return f->refuse(name, "user, metadata and their like may have 64 KiB together");
  }
}

}  // namespace

void Fields::refuse(std::string_view param, std::string message, std::string_view code) {
  refuse(param, invalid_argument("'" + std::string(param) + "' " + std::move(message)), code);
}

void Fields::refuse(std::string_view param, Status status, std::string_view code) {
  if (!ok()) return;
  fault_.status = std::move(status);
  fault_.param = std::string(param);
  fault_.code = std::string(code);
}

const Json* Fields::get(std::string_view name) const {
  const Json* v = body_.find(name);
  return v == nullptr || v->is_null() ? nullptr : v;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* v = get(name);
  if (v == nullptr) return std::nullopt;
  int64_t value = 0;
  if (v->is_int()) {
    value = v->as_int();
  } else if (v->is_double() && !v->is_uint64() && std::trunc(v->as_double()) == v->as_double() &&
             std::fabs(v->as_double()) < 9e15) {
    value = static_cast<int64_t>(v->as_double());  // 16.0, as some clients write
  } else {
    refuse(name, "must be an integer");
    return std::nullopt;
  }
  if (value < low || value > high) {
    std::string range = "must be at least " + std::to_string(low);
    if (high < std::numeric_limits<int64_t>::max()) range += " and at most " + std::to_string(high);
    refuse(name, std::move(range));
    return std::nullopt;
  }
  return value;
}

std::optional<double> Fields::number(std::string_view name, double low, double high, bool open_low) {
  const Json* v = get(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) {
    refuse(name, "must be a number");
    return std::nullopt;
  }
  const double value = v->as_double();
  if (!std::isfinite(value) || value < low || value > high || (open_low && static_cast<float>(value) <= low)) {
    refuse(name, "must be " + range_text(low, high, open_low));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* v = get(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_bool()) {
    refuse(name, "must be true or false");
    return std::nullopt;
  }
  return v->as_bool();
}

std::optional<std::string> Fields::text(std::string_view name, size_t most) {
  const Json* v = get(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string() || v->as_string().size() > most) {
    refuse(name, "must be a string of at most " + std::to_string(most) + " bytes");
    return std::nullopt;
  }
  return v->as_string();
}

std::vector<std::string> Fields::texts(std::string_view name, size_t count, size_t each) {
  std::vector<std::string> out;
  const Json* v = get(name);
  if (v == nullptr) return out;
  bool good = v->is_string() || (v->is_array() && v->size() <= count);
  if (v->is_string()) out.push_back(v->as_string());
  if (good && v->is_array()) {
    for (const Json& item : v->items()) {
      if (!(good = item.is_string())) break;
      out.push_back(item.as_string());
    }
  }
  for (const std::string& text : out) good = good && !text.empty() && text.size() <= each;
  if (good) return out;
  refuse(name, "must be a string or a list of at most " + std::to_string(count) + " strings, each of 1 to " +
                   std::to_string(each) + " bytes");
  return {};
}

std::vector<int32_t> Fields::ids(std::string_view name, size_t count, int32_t vocab) {
  std::vector<int32_t> out;
  const Json* v = get(name);
  if (v == nullptr) return out;
  bool good = v->is_array() && v->size() <= count;
  if (good) {
    for (const Json& item : v->items()) {
      if (!(good = item.is_int() && item.as_int() >= 0 && item.as_int() < vocab)) break;
      out.push_back(static_cast<int32_t>(item.as_int()));
    }
  }
  if (good) return out;
  refuse(name, "must be a list of at most " + std::to_string(count) + " token ids below " + std::to_string(vocab));
  return {};
}

std::span<const FieldSpec> common_fields() { return kCommon; }
std::span<const FieldSpec> unsupported_fields() { return kUnsupported; }

std::vector<std::string> unknown_fields(const Json& body, std::span<const FieldSpec> known) {
  std::unordered_set<std::string_view> names;
  for (const FieldSpec& spec : known) names.insert(spec.name);
  std::vector<std::string> out;
  for (const Json::Member& m : body.members()) {
    if (names.count(m.first) != 0) continue;
    if (out.size() == 64) break;
    std::string name = m.first.substr(0, 64);
    for (char& c : name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                         c == '-' || c == '.';
      if (!plain) c = '?';
    }
    out.push_back(std::move(name));
  }
  return out;
}

void read_common(Services& services, const HttpRequest& request, Fields* f, Ask* ask) {
  const std::string name = f->text("model", 1024).value_or("");
  if (!f->ok()) return;
  auto model = services.model(name);
  if (!model.ok()) {
    const bool unknown = model.status().code() == Code::kNotFound;
    return f->refuse("model", std::move(model).take_status(), unknown ? "model_not_found" : "");
  }
  ask->model = *std::move(model);
  refuse_unsupported(f);
  read_accepted(f);
  read_stream(f, ask);
  engine::Request& r = ask->request;
  SamplingParams& s = r.sampling;
  read_numbers(f, &s);
  read_integers(f, &s);
  read_lists(f, *ask->model->text->tokenizer, &s);
  ask->seed = f->integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())
                  .value_or(services.draw_seed());
  s.has_seed = true;
  s.seed = static_cast<uint64_t>(ask->seed);
  r.model = ask->model->name;
  r.external_id = request.request_id;
  r.choices = static_cast<int32_t>(f->integer("n", 1, services.options().max_choices).value_or(1));
  r.priority =
      static_cast<int32_t>(f->integer("priority", std::numeric_limits<int32_t>::min(), kMaxInt32).value_or(0));
  if (const auto v = f->integer("deadline_ms", 1, kMaxInt32)) r.deadline_us = *v * 1000;
  r.tenant = request.key_id;
  if (const auto v = f->text("cache_salt", 256)) r.tenant += ":" + *v;
  r.use_cache = f->boolean("cache_prompt").value_or(true);
  ask->skip_special = f->boolean("skip_special_tokens").value_or(true);
  ask->return_token_ids = f->boolean("return_token_ids").value_or(false);
  const int64_t most = ask->model->max_context > 0 ? ask->model->max_context : kMaxInt32;
  const auto a = f->integer("max_tokens", 0, most), b = f->integer("max_completion_tokens", 0, most);
  if (a && b && *a != *b) f->refuse("max_tokens", "contradicts max_completion_tokens; give one of them");
  ask->max_tokens = b ? b : a;
  s.min_tokens = static_cast<int32_t>(f->integer("min_tokens", 0, ask->max_tokens.value_or(most)).value_or(0));
}

void fit_to_context(std::string_view param, int64_t fallback, Fields* f, Ask* ask) {
  int64_t longest = 0;
  for (const auto& prompt : ask->prompts) {
    if (prompt.empty()) return f->refuse(param, "must not be empty");
    longest = std::max(longest, static_cast<int64_t>(prompt.size()));
  }
  constexpr int64_t kUnknown = 1 << 20;
  const int64_t context = ask->model->max_context > 0 ? ask->model->max_context : kUnknown;
  const int64_t room = context - longest;
  if (room < 0 || (room == 0 && ask->max_tokens.value_or(1) > 0)) {
    return f->refuse(param,
                     "has " + std::to_string(longest) + " tokens, and the context of the model holds " +
                         std::to_string(context) + " of prompt and answer together; shorten it",
                     "context_length_exceeded");
  }
  const int64_t wanted = ask->max_tokens.value_or(fallback < 0 ? room : fallback);
  ask->request.max_tokens = static_cast<int32_t>(std::min(wanted, room));
  ask->request.sampling.min_tokens = std::min(ask->request.sampling.min_tokens, ask->request.max_tokens);
}

bool parse_body(const HttpRequest& request, Json* body, Fault* fault) {
  auto parsed = Json::parse(request.body);
  if (!parsed.ok()) {
    fault->status = invalid_argument("the body is no valid JSON: " + parsed.status().message());
    return false;
  }
  if (!parsed->is_object()) {
    fault->status = invalid_argument("the body must be a JSON object");
    return false;
  }
  *body = *std::move(parsed);
  return true;
}

bool note_unknown(Services& services, const Json& body, std::span<const FieldSpec> known, Responder& responder) {
  const std::vector<std::string> unknown = unknown_fields(body, known);
  if (unknown.empty()) return true;
  if (services.options().strict) {
    responder.error({invalid_argument("'" + unknown[0] + "' is no known field"), unknown[0], "unknown_field"});
    return false;
  }
  std::string list;
  for (const std::string& name : unknown) list += (list.empty() ? "" : ", ") + name;
  responder.header("x-ignored-params", list);
  return true;
}

}  // namespace bora::serve
