#include "text/chat/param_types.h"

#include "text/chat/json_push.h"

namespace bora::text {

namespace {

const Json* find_function(const Json* tools, std::string_view name) {
  if (tools == nullptr || !tools->is_array()) return nullptr;
  for (const Json& tool : tools->items()) {
    const Json* f = tool.find("function");
    if (f == nullptr || !f->is_object()) f = &tool;
    const Json* own = f->find("name");
    if (own != nullptr && own->is_string() && own->as_string() == name) return f;
  }
  return nullptr;
}

void add_type(std::string_view name, ParamTypes* t) {
  if (name == "string")
    t->text = true;
  else if (name == "integer" || name == "number")
    t->number = true;
  else if (name == "boolean")
    t->boolean = true;
  else if (name == "object")
    t->object = true;
  else if (name == "array")
    t->array = true;
  else if (name == "null")
    t->null = true;
  else
    t->any = true;
}

void add_value_type(const Json& v, ParamTypes* t) {
  if (v.is_string())
    t->text = true;
  else if (v.is_number())
    t->number = true;
  else if (v.is_bool())
    t->boolean = true;
  else if (v.is_null())
    t->null = true;
  else
    t->any = true;
}

void collect(const Json& schema, ParamTypes* t, int depth) {
  if (!schema.is_object() || depth > 8) {
    t->any = true;
    return;
  }
  const Json* type = schema.find("type");
  if (type != nullptr && type->is_string()) return add_type(type->as_string(), t);
  if (type != nullptr && type->is_array()) {
    for (const Json& one : type->items()) {
      if (one.is_string()) add_type(one.as_string(), t);
    }
    return;
  }
  for (const std::string_view key : {"anyOf", "oneOf", "enum"}) {
    const Json* parts = schema.find(key);
    if (parts == nullptr || !parts->is_array()) continue;
    for (const Json& part : parts->items()) key == "enum" ? add_value_type(part, t) : collect(part, t, depth + 1);
    return;
  }
  if (const Json* fixed = schema.find("const")) return add_value_type(*fixed, t);
  t->any = true;
}

bool is_number(std::string_view text) {
  JsonPush json;
  std::string out;
  for (const char c : text) {
    if (json.feed(c, &out) != JsonPush::Result::kMore) return false;
  }
  return json.complete_at_end();
}

std::string_view trimmed(std::string_view t) {
  const size_t from = t.find_first_not_of(" \n\r\t");
  if (from == std::string_view::npos) return {};
  return t.substr(from, t.find_last_not_of(" \n\r\t") - from + 1);
}

}  // namespace

bool is_known_tool(const Json* tools, std::string_view function) {
  return tools == nullptr || !tools->is_array() || tools->size() == 0 || find_function(tools, function) != nullptr;
}

ParamTypes param_types(const Json* tools, std::string_view function, std::string_view parameter) {
  ParamTypes t;
  const Json* f = find_function(tools, function);
  const Json* parameters = f == nullptr ? nullptr : f->find("parameters");
  const Json* properties = parameters == nullptr ? nullptr : parameters->find("properties");
  const Json* schema = properties == nullptr ? nullptr : properties->find(parameter);
  if (schema == nullptr) {
    t.text = true;
  } else {
    collect(*schema, &t, 0);
  }
  return t;
}

std::string typed_value(const ParamTypes& types, std::string_view written) {
  const std::string_view value = trimmed(written);
  if ((types.null || types.any) && (value == "null" || value == "None")) return "null";
  if ((types.boolean || types.any) && (value == "true" || value == "True")) return "true";
  if ((types.boolean || types.any) && (value == "false" || value == "False")) return "false";
  if ((types.number || types.any) && is_number(value)) return std::string(value);
  if ((types.object || types.array || types.any) && !value.empty() && (value[0] == '{' || value[0] == '[')) {
    const auto parsed = Json::parse(value);
    if (parsed.ok() && (types.any || (parsed->is_object() ? types.object : types.array))) return std::string(value);
  }
  std::string text = "\"";
  json_escape(written, &text);
  return text + "\"";
}

}  // namespace bora::text
