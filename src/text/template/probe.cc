// Finding out what a template understands: a few small conversations are rendered in the strict mode, and the texts
// that come out (or the failure to render) say whether it wants arguments as objects or as text, content as text or
// as parts, and so on. A wrong form often does not fail: it prints a Python repr or JSON inside JSON, so the texts
// are looked at.
#include <algorithm>
#include <optional>

#include "text/template/context.h"

namespace bora::text::jinja {

namespace {

std::optional<std::string> rendered(const Program& program, const TemplateLimits& limits, Json messages,
                                    bool with_tools, const Needs* known) {
  RenderOptions options;
  options.now = {2024, 1, 1, 12, 0, 0};
  options.limits = limits;
  options.limits.steps = std::min<int64_t>(limits.steps, 200'000);
  options.limits.output_bytes = std::min<int64_t>(limits.output_bytes, 1 << 20);
  Json context = Json::object();
  context.set("messages", std::move(messages));
  context.set("add_generation_prompt", true);
  for (const char* token : {"bos_token", "eos_token"}) context.set(token, "");
  if (with_tools) {
    const auto tools =
        Json::parse(R"([{"type":"function","function":{"name":"probe_tool","description":"probe","parameters":
      {"type":"object","properties":{"probe_arg":{"type":"string","description":"probe"}},
        "required":["probe_arg"]}}}])");
    if (tools.ok()) context.set("tools", *tools);
  }
  try {
    Interp in(program, options);
    prepare_context(in, program, context, known);
    in.run();
    return in.out().take_text();
  } catch (const Failure&) {
    return std::nullopt;
  }
}

Json message(const char* role, Json content) {
  Json m = Json::object();
  m.set("role", role);
  m.set("content", std::move(content));
  return m;
}

Json call_conversation(Json arguments, bool with_content) {
  Json function = Json::object();
  function.set("name", "probe_tool");
  function.set("arguments", std::move(arguments));
  Json call = Json::object();
  call.set("id", "call00001");
  call.set("type", "function");
  call.set("function", std::move(function));
  Json assistant = message("assistant", with_content ? Json("") : Json());
  assistant.set("tool_calls", Json::array({std::move(call)}));
  Json tool = message("tool", "probe_result");
  tool.set("tool_call_id", "call00001");
  tool.set("name", "probe_tool");
  return Json::array({message("user", "probe_user"), std::move(assistant), std::move(tool)});
}

bool has(const std::optional<std::string>& text, std::string_view what) {
  return text.has_value() && text->find(what) != std::string::npos;
}

}  // namespace

Needs probe(const Program& program, const TemplateLimits& limits) {
  Needs needs;
  const Json hello = Json::array({message("user", "probe_user")});
  const Needs undefined{.absent_undefined = true};
  needs.absent_undefined =
      !rendered(program, limits, hello, false, nullptr) && rendered(program, limits, hello, false, &undefined);
  // Later conversations build on this one.
  const Needs known = needs;
  const auto run = [&](Json messages, bool tools) {
    return rendered(program, limits, std::move(messages), tools, &known);
  };
  Json object = Json::object();
  object.set("probe_key", "probe_value");
  const auto as_object = run(call_conversation(object, true), true);
  const auto as_text = run(call_conversation("{\"probe_key\": \"probe_value\"}", true), true);
  const bool object_fits =
      has(as_object, "probe_key") && has(as_object, "probe_value") && !has(as_object, "'probe_key'");
  const bool text_fits =
      has(as_text, "probe_key") && !has(as_text, "\\\"probe_key") && !has(as_text, "'{\"probe_key");
  needs.arguments_object = object_fits && !text_fits;
  needs.arguments_text = text_fits && !object_fits;

  Json part = Json::object();
  part.set("type", "text");
  part.set("text", "probe_text");
  const auto plain = run(hello, false);
  const auto parts = run(Json::array({message("user", Json::array({part}))}), false);
  const bool plain_fits = has(plain, "probe_user");
  const bool parts_fit = has(parts, "probe_text") && !has(parts, "'type'") && !has(parts, "\"type\"");
  needs.content_text = plain_fits && !parts_fit;
  needs.content_parts = parts_fit && !plain_fits;

  if (object_fits || text_fits) {
    const auto bare =
        run(call_conversation(object_fits ? object : Json("{\"probe_key\": \"probe_value\"}"), false), true);
    needs.content_always = !bare.has_value() || has(bare, "None");
  }
  const auto system = run(Json::array({message("system", "probe_system"), message("user", "probe_user")}), false);
  const auto developer =
      run(Json::array({message("developer", "probe_system"), message("user", "probe_user")}), false);
  needs.developer_as_system = has(system, "probe_system") && !has(developer, "probe_system");
  return needs;
}

}  // namespace bora::text::jinja
