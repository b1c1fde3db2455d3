#include "serve/answers.h"

#include <cmath>

namespace bora::serve {

Json Envelope::with(Json choices) const {
  Json out = Json::object();
  out.set("id", id);
  out.set("object", object);
  out.set("created", created);
  out.set("model", model);
  out.set("system_fingerprint", fingerprint);
  out.set("choices", std::move(choices));
  return out;
}

void Envelope::chunk(Json choices, const Totals* totals, std::string* out) const {
  Json chunk = with(std::move(choices));
  if (running_usage && totals != nullptr) {
    chunk.set("usage", usage_json(*totals));
  } else if (usage) {
    chunk.set("usage", Json());
  }
  append_event(chunk, out);
}

void Envelope::close(const Totals& totals, std::string* out) const {
  if (!usage) return;
  Json last = with(Json::array());
  last.set("usage", usage_json(totals));
  append_event(last, out);
}

Json choice_json(int32_t index, std::string_view key, Json value, Json logprobs, Json finish_reason) {
  Json choice = Json::object();
  choice.set("index", index);
  choice.set(key, std::move(value));
  choice.set("logprobs", std::move(logprobs));
  choice.set("finish_reason", std::move(finish_reason));
  return choice;
}

double finite_logprob(float value) { return std::isfinite(value) ? static_cast<double>(value) : -9999.0; }

std::string without_special(const engine::Event& event, const text::Tokenizer& tokenizer) {
  std::string text = event.text;
  if (!event.special || event.token < 0) return text;
  const std::string_view token = tokenizer.token_text(event.token);
  if (token != "<think>" && token != "</think>" && text.ends_with(token)) text.resize(text.size() - token.size());
  return text;
}

int64_t characters(std::string_view utf8) {
  int64_t count = 0;
  for (const char c : utf8) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

namespace {

Json token_json(const engine::TokenLogprob& t) {
  Json out = Json::object(), bytes = Json::array();
  out.set("token", t.bytes);
  out.set("logprob", finite_logprob(t.logprob));
  for (const char c : t.bytes) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  out.set("bytes", std::move(bytes));
  return out;
}

}  // namespace

Json chat_logprob(const engine::Event& event) {
  Json out = token_json(event.logprob), top = Json::array();
  for (const engine::TokenLogprob& t : event.top) top.push_back(token_json(t));
  out.set("top_logprobs", std::move(top));
  return out;
}

void LogprobLists::add(const engine::Event& event, std::string_view text, int64_t offset, bool scored) {
  tokens_.push_back(text);
  values_.push_back(scored ? Json(finite_logprob(event.logprob.logprob)) : Json());
  Json top;
  if (scored) {
    top = Json::object();
    for (const engine::TokenLogprob& t : event.top) {
      // Different bytes may print alike (halves of a character): the first, the likelier, stays.
      const std::string name = t.bytes;
      if (!top.contains(name)) top.set(name, finite_logprob(t.logprob));
    }
  }
  tops_.push_back(std::move(top));
  offsets_.push_back(offset);
}

Json LogprobLists::take() {
  Json out = Json::object();
  out.set("tokens", std::move(tokens_));
  out.set("token_logprobs", std::move(values_));
  out.set("top_logprobs", std::move(tops_));
  out.set("text_offset", std::move(offsets_));
  tokens_ = Json::array();
  values_ = Json::array();
  tops_ = Json::array();
  offsets_ = Json::array();
  return out;
}

}  // namespace bora::serve
