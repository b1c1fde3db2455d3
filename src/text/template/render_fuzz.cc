// Template source and context: the bytes before the first NUL are the source, the rest is JSON. Both modes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "text/template/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const std::string_view source = input.substr(0, cut);
  const std::string_view text = cut == std::string_view::npos ? "{}" : input.substr(cut + 1);
  bora::text::RenderOptions options;
  options.limits = {.steps = 20'000, .depth = 60, .output_bytes = 1 << 16};
  const auto parsed = bora::text::parse_template(source, options.limits);
  if (!parsed.ok()) return 0;
  const auto context = bora::Json::parse(text);
  for (const auto mode : {bora::text::RenderOptions::Mode::kStrict, bora::text::RenderOptions::Mode::kLenient}) {
    options.mode = mode;
    bora::text::Rendered out;
    bora::text::RenderError error;
    const bool ok = (*parsed)->render(context.ok() ? *context : bora::Json::object(), options, &out, &error);
    if (ok == !error.status.ok()) __builtin_trap();
    uint32_t at = 0;
    for (const auto& run : out.prompt.runs) {
      if (run.end <= at) __builtin_trap();
      at = run.end;
    }
    if (ok && at != out.prompt.text.size()) __builtin_trap();
  }
  return 0;
}
