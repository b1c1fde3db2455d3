#include "serve/prompts.h"

#include <algorithm>
#include <array>

namespace bora::serve {
namespace {

constexpr FieldSpec kFields[] = {
    {"messages", "list", ">= 1 message", "role, content, name, tool_calls, tool_call_id, reasoning_content", "[]"},
    {"chat_template_kwargs", "object", "", "variables of the template, for example enable_thinking", "3"},
    {"reasoning_effort", "string", "none minimal low medium high xhigh max", "handed to the template", "\"huge\""},
    {"documents", "list", "", "handed to the template", "3"},
    {"add_generation_prompt", "boolean", "", "true, unless the last message is continued", "3"},
    {"continue_final_message", "boolean", "", "the answer continues the last message", "3"},
};

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

text::CivilTime civil(int64_t unix_seconds) {
  // Days to date: Howard Hinnant, chrono-compatible low-level date algorithms (civil_from_days).
  const int64_t days = unix_seconds / 86400, rest = unix_seconds % 86400;
  const int64_t z = days + 719468, era = z / 146097, doe = z - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365,
                doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153, month = mp < 10 ? mp + 3 : mp - 9;
  text::CivilTime t;
  t.year = static_cast<int32_t>(yoe + era * 400 + (month <= 2 ? 1 : 0));
  t.month = static_cast<int32_t>(month);
  t.day = static_cast<int32_t>(doy - (153 * mp + 2) / 5 + 1);
  t.hour = static_cast<int32_t>(rest / 3600);
  t.minute = static_cast<int32_t>(rest / 60 % 60);
  t.second = static_cast<int32_t>(rest % 60);
  return t;
}

// Text parts become one text, a line each.
bool join_parts(const Json& parts, const std::string& where, Fields* f, std::string* out) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts.items()[i];
    const std::string at = where + "[" + std::to_string(i) + "]";
    const Json* type = part.find("type");
    if (type == nullptr || !type->is_string()) {
      f->refuse(at, "must be an object with a type");
      return false;
    }
    if (type->as_string() != "text" && type->as_string() != "input_text") {
      f->refuse(at,
                unimplemented("parts of type '" + type->as_string().substr(0, 64) + "' are not supported; send text"),
                "unsupported_feature");
      return false;
    }
    const Json* text = part.find("text");
    if (text == nullptr || !text->is_string()) {
      f->refuse(at + ".text", "must be a string");
      return false;
    }
    if (i > 0) *out += "\n";
    *out += text->as_string();
  }
  return true;
}

bool read_content(const Json& message, const std::string& where, bool may_lack, Fields* f, Json* out) {
  const Json* content = message.find("content");
  if (content != nullptr && content->is_string()) {
    out->set("content", *content);
    return true;
  }
  if (content != nullptr && content->is_array()) {
    std::string text;
    if (!join_parts(*content, where + ".content", f, &text)) return false;
    out->set("content", std::move(text));
    return true;
  }
  if ((content == nullptr || content->is_null()) && may_lack) {
    out->set("content", "");
    return true;
  }
  f->refuse(where + ".content", "must be a string or a list of parts");
  return false;
}

bool read_message(const Json& message, const std::string& where, bool knows_developer, Fields* f, Json* out) {
  if (!message.is_object()) {
    f->refuse(where, "must be an object");
    return false;
  }
  const Json* role = message.find("role");
  if (role == nullptr || !role->is_string() ||
      std::find(std::begin(kRoles), std::end(kRoles), role->as_string()) == std::end(kRoles)) {
    f->refuse(where + ".role", "must be system, developer, user, assistant or tool");
    return false;
  }
  *out = Json::object();
  const std::string& name = role->as_string();
  out->set("role", name == "developer" && !knows_developer ? "system" : name == "function" ? "tool" : name);
  const Json* calls = message.find("tool_calls");
  const bool has_calls = calls != nullptr && calls->is_array() && calls->size() > 0;
  if (calls != nullptr && !calls->is_null() && !calls->is_array()) {
    f->refuse(where + ".tool_calls", "must be a list");
    return false;
  }
  if (!read_content(message, where, name == "assistant" && has_calls, f, out)) return false;
  if (has_calls) out->set("tool_calls", *calls);
  for (const std::string_view key : {"name", "tool_call_id", "reasoning_content", "reasoning"}) {
    const Json* v = message.find(key);
    if (v == nullptr || v->is_null()) continue;
    if (!v->is_string()) {
      f->refuse(where + "." + std::string(key), "must be a string");
      return false;
    }
    out->set(key == "reasoning" ? "reasoning_content" : key, *v);
  }
  return true;
}

void read_kwargs(Fields* f, Json* context) {
  constexpr std::string_view kOurs[] = {
      "messages", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt", "continue_final_message"};
  if (const auto effort = f->text("reasoning_effort", 16)) {
    constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    if (std::find(std::begin(kEfforts), std::end(kEfforts), *effort) == std::end(kEfforts))
      return f->refuse("reasoning_effort", "must be none, minimal, low, medium, high, xhigh or max");
    context->set("reasoning_effort", *effort);
  }
  const Json* kwargs = f->get("chat_template_kwargs");
  if (kwargs == nullptr) return;
  if (!kwargs->is_object() || kwargs->size() > 64)
    return f->refuse("chat_template_kwargs", "must be an object of at most 64 members");
  for (const Json::Member& m : kwargs->members()) {
    if (std::find(std::begin(kOurs), std::end(kOurs), m.first) != std::end(kOurs))
      return f->refuse("chat_template_kwargs." + m.first, "belongs to the server and cannot be replaced");
    context->set(m.first, m.second);
  }
}

bool ends_in_think(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text.ends_with("<think>");
}

bool read_messages(const ServedModel& model, Fields* f, Json* messages) {
  const Json* list = f->get("messages");
  if (list == nullptr || !list->is_array() || list->size() == 0) {
    f->refuse("messages", "must be a list of at least one message");
    return false;
  }
  const bool knows_developer = model.text->template_source.find("developer") != std::string::npos;
  for (size_t i = 0; i < list->size(); ++i) {
    Json message;
    if (!read_message(list->items()[i], "messages[" + std::to_string(i) + "]", knows_developer, f, &message))
      return false;
    messages->push_back(std::move(message));
  }
  return true;
}

}  // namespace

std::span<const FieldSpec> chat_prompt_fields() { return kFields; }

ChatPrompt read_chat_prompt(Services& services, const ServedModel& model, Fields* f) {
  ChatPrompt prompt;
  if (model.text->chat_template == nullptr) {
    f->refuse("messages", failed_precondition("the model has no chat template; use /v1/completions, or start the "
                                              "server with --chat-template"));
    return prompt;
  }
  Json messages = Json::array(), context = Json::object();
  if (!read_messages(model, f, &messages)) return prompt;
  read_kwargs(f, &context);
  const bool goes_on = f->boolean("continue_final_message").value_or(false);
  const bool opens = f->boolean("add_generation_prompt").value_or(!goes_on);
  if (goes_on && opens) f->refuse("continue_final_message", "and add_generation_prompt exclude each other");
  if (goes_on && *messages.items().back().find("role") != Json("assistant"))
    f->refuse("continue_final_message", "needs a last message of the assistant");
  if (const Json* documents = f->get("documents")) {
    if (!documents->is_array()) f->refuse("documents", "must be a list");
    context.set("documents", *documents);
  }
  if (!f->ok()) return prompt;
  context.set("messages", std::move(messages));
  context.set("add_generation_prompt", opens);
  if (goes_on) context.set("continue_final_message", true);
  context.set("bos_token", model.text->bos_token);
  context.set("eos_token", model.text->eos_token);
  text::RenderOptions options;
  options.mode = text::RenderOptions::Mode::kLenient;
  options.now = civil(services.clock().unix_seconds());
  text::Rendered rendered;
  text::RenderError error;
  if (!model.text->chat_template->render(context, options, &rendered, &error)) {
    // Whatever the template dislikes came with the messages.
    f->refuse("messages", invalid_argument("the chat template refuses: " + error.status.message()));
    return prompt;
  }
  model.text->tokenizer->encode_spans(rendered.prompt, true, &prompt.ids);
  prompt.reasoning_open = ends_in_think(rendered.prompt.text);
  prompt.text = std::move(rendered.prompt.text);
  return prompt;
}

}  // namespace bora::serve
