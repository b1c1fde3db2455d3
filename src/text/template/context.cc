#include "text/template/context.h"

#include <algorithm>

namespace bora::text::jinja {

namespace {

constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

// Given by the tokenizer's configuration, not by a client: they may hold control tokens.
constexpr std::string_view kTrusted[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                         "pad_token", "cls_token", "mask_token", "additional_special_tokens"};
// Some templates build a marker around the role ('<|' + role + '|>'). These words select a branch, they carry no text
// of a user.
constexpr std::string_view kRoles[] = {"system",    "user",     "assistant", "tool",
                                       "developer", "function", "ipython",   "model"};

template <size_t N>
bool among(const std::string_view (&set)[N], std::string_view name) {
  return std::find(std::begin(set), std::end(set), name) != std::end(set);
}

const Str* text_of(Interp& in, std::string_view text, bool from_template, bool copies) {
  return copies ? make_str(in.heap(), text, from_template) : borrow_str(in.heap(), text, from_template);
}

// `copies`: the tree does not outlive the render, so its strings are copied.
Value convert(Interp& in, const Json& j, bool from_template, int depth, bool copies = false) {
  if (depth > 512) fail_limit("the context nests too deeply");
  switch (j.type()) {
    case Json::Type::kNull: return Value::none();
    case Json::Type::kBool: return Value::boolean(j.as_bool());
    case Json::Type::kInt: return Value::integer(j.as_int());
    case Json::Type::kDouble:
      return j.is_uint64() ? uint64_value(in.heap(), j.as_uint64()) : Value::real(j.as_double());
    case Json::Type::kString: return Value::str(text_of(in, j.as_string(), from_template, copies));
    case Json::Type::kArray: {
      List* l = in.heap().make<List>();
      l->items = in.heap().array<Value>(j.size());
      l->capacity = static_cast<uint32_t>(j.size());
      for (const Json& item : j.items()) l->items[l->size++] = convert(in, item, from_template, depth + 1, copies);
      return Value::seq(Tag::kList, l);
    }
    case Json::Type::kObject: break;
  }
  Dict* d = in.heap().make<Dict>();
  for (const auto& [key, value] : j.members()) {
    d->set(in.heap(), Value::str(text_of(in, key, from_template, copies)),
           convert(in, value, from_template, depth + 1, copies));
  }
  return Value::dictionary(d);
}

Value copy_json(Interp& in, const Json& j, int depth) { return convert(in, j, false, depth, true); }

void set_name(Interp& in, const Program& program, std::string_view name, Value v) {
  const auto at = program.name_numbers.find(std::string(name));
  if (at != program.name_numbers.end()) in.set_global(at->second, v);
}

Value key(Interp& in, std::string_view name) { return Value::str(borrow_str(in.heap(), name, true)); }

Dict* convert_message(Interp& in, const Json& message) {
  if (!message.is_object()) fail("TypeError", "Chat messages should be objects");
  const Json* reasoning = nullptr;
  for (const std::string_view field : kReasoningFields) {
    const Json* v = message.find(field);
    if (reasoning == nullptr && v != nullptr && !v->is_null()) reasoning = v;
  }
  Dict* d = in.heap().make<Dict>();
  if (reasoning != nullptr) d->set(in.heap(), key(in, "thinking"), convert(in, *reasoning, false, 1));
  for (const auto& [name, value] : message.members()) {
    if (value.is_null()) continue;
    const bool fixed = name == "role" && value.is_string() && among(kRoles, value.as_string());
    d->set(in.heap(), Value::str(borrow_str(in.heap(), name, false)), convert(in, value, fixed, 1));
  }
  if (reasoning != nullptr) d->set(in.heap(), key(in, "reasoning_content"), convert(in, *reasoning, false, 1));
  return d;
}

// tools and documents that the caller did not give: none, as apply_chat_template passes them. Templates that ask
// whether they are defined mean "given", and some walk them unasked: both get undefined in the lenient mode.
void set_absent(Interp& in, const Program& program, const Json& context, std::string_view name, const Needs* needs) {
  const Json* given = context.find(name);
  if (given != nullptr && !given->is_null()) return;
  const auto at = program.name_numbers.find(std::string(name));
  if (at == program.name_numbers.end()) return;
  if (needs != nullptr && (needs->absent_undefined || program.tested[at->second])) {
    in.adapted("absent-as-undefined");
  } else {
    in.set_global(at->second, Value::none());
  }
}

void adapt_arguments(Interp& in, const Needs& needs, Dict* message) {
  const Value* calls = message->find(std::string_view("tool_calls"));
  if (calls == nullptr || !calls->is_list()) return;
  for (const Value& call : *calls->list) {
    const Value* function = call.is_dict() ? call.dict->find(std::string_view("function")) : nullptr;
    if (function == nullptr) function = &call;
    Value* arguments = function->is_dict() ? function->dict->find(std::string_view("arguments")) : nullptr;
    if (arguments == nullptr) continue;
    if (arguments->is_str() && needs.arguments_object) {
      const auto parsed = Json::parse(arguments->s->view());
      if (!parsed.ok() || !parsed->is_object()) continue;
      *arguments = copy_json(in, *parsed, 0);
      in.adapted("arguments-as-object");
    } else if (arguments->is_dict() && needs.arguments_text) {
      const Value dumped = in.call_filter("tojson", {{arguments, 1}, {}});
      *arguments = Value::str(make_str(in.heap(), dumped.s->view(), false));
      in.adapted("arguments-as-text");
    }
  }
}

void adapt_content(Interp& in, const Needs& needs, Dict* message) {
  Value* content = message->find(std::string_view("content"));
  if (content == nullptr) {
    if (!needs.content_always) return;
    message->set(in.heap(), key(in, "content"), in.text(""));
    in.adapted("content-empty");
  } else if (content->is_list() && needs.content_text) {
    List* texts = in.heap().make<List>();
    for (const Value& part : *content->list) {
      const Value* text = part.is_dict() ? part.dict->find(std::string_view("text")) : nullptr;
      if (text == nullptr || !text->is_str()) return;  // not text alone: the template decides
      texts->push(in.heap(), *text);
    }
    *content = Value::str(join(in, *in.str("\n"), in.list_value(texts), true));
    in.adapted("content-as-text");
  } else if (content->is_str() && needs.content_parts) {
    Dict* part = in.heap().make<Dict>();
    part->set(in.heap(), key(in, "type"), in.text("text"));
    part->set(in.heap(), key(in, "text"), *content);
    List* parts = in.heap().make<List>();
    parts->push(in.heap(), Value::dictionary(part));
    *content = in.list_value(parts);
    in.adapted("content-as-parts");
  }
}

void adapt_message(Interp& in, const Needs& needs, Dict* message) {
  Value* role = message->find(std::string_view("role"));
  if (needs.developer_as_system && role != nullptr && role->is_str() && role->s->view() == "developer") {
    *role = in.text("system");
    in.adapted("developer-as-system");
  }
  adapt_arguments(in, needs, message);
  adapt_content(in, needs, message);
}

// Appends the tag to the text that is to be continued.
Continuation tag_final(Interp& in, const Program& program, const Json& wish, const List& messages) {
  Continuation c;
  if (messages.size == 0) fail("ValueError", "continue_final_message is set but the conversation is empty!");
  c.field = wish.is_string() ? wish.as_string() : "content";
  Dict* last = messages.items[messages.size - 1].dict;
  Value* content = last->find(std::string_view(c.field));
  if (content == nullptr || content->is_none()) {
    fail("ValueError", "continue_final_message is set but the final message has no \"" + c.field + "\" to continue!");
  }
  std::vector<std::string> fields = {c.field};
  if (among(kReasoningFields, c.field)) {
    fields.clear();
    for (const std::string_view f : kReasoningFields) {
      const Value* v = last->find(f);
      if (v != nullptr && in.same(*v, *content)) fields.emplace_back(f);
    }
  }
  if (std::none_of(fields.begin(), fields.end(),
                   [&](const std::string& f) { return program.source.find(f) != std::string::npos; })) {
    fail("ValueError", "continue_final_message is set to \"" + c.field +
                           "\" but this is not an accepted field in the chat_template");
  }
  const Str* tag = in.str(kContinueTag, false);
  const auto tagged = [&](const Value& v) {
    return Value::str(concat(in.heap(), *in.need_str(v, "the message to continue"), *tag));
  };
  if (content->is_seq()) {
    for (uint32_t i = content->list->size; i-- > 0;) {
      const Value& block = content->list->items[i];
      Value* text = block.is_dict() ? block.dict->find(std::string_view("text")) : nullptr;
      if (text == nullptr) continue;
      c.final_text = std::string(in.need_str(*text, "the text to continue")->view());
      *text = tagged(*text);
      return c;
    }
    fail("ValueError",
         "continue_final_message is set but we could not find any text to continue in the final message!");
  }
  c.final_text = std::string(in.need_str(*content, "the message to continue")->view());
  const Value text = tagged(*content);
  for (const std::string& f : fields) {
    if (Value* v = last->find(std::string_view(f))) *v = text;
  }
  return c;
}

bool truthy(const Json* j) {
  if (j == nullptr || j->is_null()) return false;
  if (j->is_bool()) return j->as_bool();
  return !j->is_string() || !j->as_string().empty();
}

}  // namespace

Value from_json(Interp& in, const Json& j, bool from_template) { return convert(in, j, from_template, 0); }

Continuation prepare_context(Interp& in, const Program& program, const Json& context, const Needs* needs) {
  Continuation continuation;
  if (!context.is_object()) fail("TypeError", "the context must be an object");
  const Json* messages = context.find("messages");
  const bool chat = messages != nullptr && messages->is_array();
  if (chat) {
    for (const std::string_view name : {"tools", "documents"}) set_absent(in, program, context, name, needs);
    set_name(in, program, "add_generation_prompt", Value::boolean(false));
  }
  for (const auto& [name, value] : context.members()) {
    if (chat && (name == "messages" || name == "continue_final_message")) continue;
    if (chat && value.is_null() && (name == "tools" || name == "documents")) continue;
    set_name(in, program, name, convert(in, value, among(kTrusted, name), 0));
  }
  if (!chat) return continuation;
  List* list = in.heap().make<List>();
  for (const Json& message : messages->items()) {
    Dict* d = convert_message(in, message);
    if (needs != nullptr) adapt_message(in, *needs, d);
    list->push(in.heap(), Value::dictionary(d));
  }
  const Json* wish = context.find("continue_final_message");
  if (truthy(wish)) continuation = tag_final(in, program, *wish, *list);
  set_name(in, program, "messages", in.list_value(list));
  return continuation;
}

void cut_continuation(const Continuation& c, StrBuilder* rendered) {
  if (c.field.empty()) return;
  const auto stripped = [](std::string_view text) {
    size_t from = 0, to = text.size();
    while (from < to && is_space(static_cast<unsigned char>(text[from]))) ++from;
    while (to > from && is_space(static_cast<unsigned char>(text[to - 1]))) --to;
    return text.substr(from, to - from);
  };
  const std::string_view text = rendered->view(), tag = stripped(kContinueTag);
  const size_t at = text.rfind(tag);
  if (at == std::string_view::npos || text.find(stripped(c.final_text)) == std::string_view::npos) {
    fail("ValueError",
         "continue_final_message is set but the final message does not appear in the chat after applying the chat "
         "template!");
  }
  size_t end = at;
  if (text.substr(at, kContinueTag.size()) != kContinueTag) {
    while (end > 0 && is_space(static_cast<unsigned char>(text[end - 1]))) --end;
  }
  rendered->truncate(end);
}

}  // namespace bora::text::jinja
