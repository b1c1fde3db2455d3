// What apply_chat_template does around a template: messages without null keys, reasoning under the names that templates read,
// tools and documents that are none when absent, and continue_final_message.
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

// Hands `context` (an object, outlives the render) to the interpreter. Throws Failure.
Continuation prepare_context(Interp& in, const Program& program, const Json& context);
// Cuts the rendered text behind the continued message.
void cut_continuation(const Continuation& c, StrBuilder* rendered);

Value from_json(Interp& in, const Json& j, bool from_template);

}  // namespace bora::text::jinja
