// Chat templates: a Jinja engine with the semantics of transformers' apply_chat_template (immutable sandbox,
// trim_blocks, lstrip_blocks, loop controls, generation blocks), with limits, and with provenance: every character of
// the output knows whether the template or the context wrote it.
//
// A parsed Template is immutable and shared by threads; a render has no state outside its call. No host object is
// reachable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/spans.h"

namespace bora::text {

struct TemplateLimits {
  int64_t steps = 10'000'000;           // evaluated nodes
  int32_t depth = 200;                  // nesting of calls, blocks and expressions
  int64_t output_bytes = 64 << 20;      // rendered text, and any single value on the way
};

// A moment for strftime_now, in the wall clock that the caller wants to show. Handed in: templates read no clock.
struct CivilTime {
  int32_t year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};

struct RenderOptions {
  // kStrict: exactly the reference. kLenient: what a server needs (absent tools are undefined when the template tests
  // `is defined`, tool arguments as the template expects them, …); every adaptation made is named in `adaptations`.
  enum class Mode : uint8_t { kStrict, kLenient };
  Mode mode = Mode::kStrict;
  CivilTime now;
  TemplateLimits limits;
};

struct Rendered {
  SpanText prompt;
  std::vector<std::string> adaptations;  // names, as listed in the docs; empty in strict mode
};

// A failed render. Raised by the template's own raise_exception: message verbatim, code kInvalidArgument.
struct RenderError {
  Status status;
  bool raised_by_template = false;
};

class Template {
 public:
  virtual ~Template() = default;
  // `context` is the object of apply_chat_template: {"messages": […], "tools": […], "documents": […],
  // "add_generation_prompt": bool, "continue_final_message": bool or field, "bos_token": "…", …}. Without a list
  // "messages" it is handed over as it is. Returns false and fills *error.
  virtual bool render(const Json& context, const RenderOptions& options, Rendered* out, RenderError* error) const = 0;
  // True when the source mentions the name as a variable: tests for capabilities ("tools", "enable_thinking").
  virtual bool mentions(std::string_view variable) const = 0;
};

// Syntax errors name the line.
Result<std::shared_ptr<const Template>> parse_template(std::string_view source, const TemplateLimits& limits);

}  // namespace bora::text
