// What the request's tool list says about a parameter, for formats that write values without types.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace bora::text {

struct ParamTypes {
  bool text = false, number = false, boolean = false, object = false, array = false, null = false, any = false;
  bool only_text() const { return text && !null; }
};

// `tools`: the request's list (OpenAI's form or bare functions), or null. A parameter that nobody describes is text.
ParamTypes param_types(const Json* tools, std::string_view function, std::string_view parameter);
// True when there is no list, or the list holds the name.
bool is_known_tool(const Json* tools, std::string_view function);
// The written value as JSON text: by type where it fits, else as a string.
std::string typed_value(const ParamTypes& types, std::string_view written);

}  // namespace bora::text
