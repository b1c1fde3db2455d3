// What apply_chat_template does around a template: messages without null keys, reasoning under the names that
// templates read, tools and documents that are none when absent, and continue_final_message.
#pragma once

#include <string>
#include <string_view>

#include "text/template/interp.h"

namespace bora::text::jinja {

// The final message that the answer continues; `field` empty: none.
struct Continuation {
  std::string field;
  std::string final_text;
};

// What a template can take, found out by rendering small conversations once (see probe). The lenient mode adapts to
// it.
struct Needs {
  bool absent_undefined = false;     // absent tools and documents must be undefined; none breaks the template
  bool arguments_object = false;     // tool call arguments must be objects
  bool arguments_text = false;       // … must be JSON text
  bool content_text = false;         // lists of text parts are not understood
  bool content_parts = false;        // plain text is not understood
  bool content_always = false;       // a message without content breaks the template
  bool developer_as_system = false;  // the role "developer" is refused, "system" is not
};
Needs probe(const Program& program, const TemplateLimits& limits);

// Hands `context` (an object, outlives the render) to the interpreter. Throws Failure.
// `needs`: null in the strict mode.
Continuation prepare_context(Interp& in, const Program& program, const Json& context, const Needs* needs);
// Cuts the rendered text behind the continued message.
void cut_continuation(const Continuation& c, StrBuilder* rendered);

Value from_json(Interp& in, const Json& j, bool from_template);

}  // namespace bora::text::jinja
