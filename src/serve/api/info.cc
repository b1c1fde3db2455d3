// GET /metrics, /version, /props, /help, /openapi.json: what the server is and does; derived from records and
// settings.
#include "serve/params.h"
#include "serve/route.h"
#include "serve/services.h"

namespace bora::serve {
namespace {

void metrics(Services& services, const HttpRequest&, std::shared_ptr<Responder> responder) {
  const auto models = services.models();
  services.metrics().sample(services.frontend().stats(), models.empty() ? std::string() : models[0]->name,
                            static_cast<double>(services.connections()));
  responder->text(200, "text/plain; version=0.0.4; charset=utf-8", services.registry().render_text());
}

void version(Services& services, const HttpRequest&, std::shared_ptr<Responder> responder) {
  Json out = Json::object();
  out.set("name", "bora");
  out.set("version", services.options().version);
  out.set("commit", services.options().commit);
  responder->json(200, out);
}

void props(Services& services, const HttpRequest&, std::shared_ptr<Responder> responder) {
  const engine::SamplingParams defaults;
  const engine::Stats stats = services.frontend().stats();
  Json out = Json::object(), models = Json::array(), sampling = Json::object(), limits = Json::object();
  for (const engine::ModelState& state : services.frontend().models()) {
    Json model = Json::object();
    model.set("id", state.name);
    model.set("state", state.state);
    if (!state.detail.empty()) model.set("detail", state.detail);
    model.set("max_context", state.max_context);
    model.set("vocab", state.vocab);
    for (const auto& served : services.models()) {
      if (served->name != state.name) continue;
      model.set("chat_template", served->text->template_source);
      model.set("answer_format", std::string_view(served->text->answers->name));
      model.set("bos_token", served->text->bos_token);
      model.set("eos_token", served->text->eos_token);
    }
    models.push_back(std::move(model));
  }
  sampling.set("temperature", static_cast<double>(defaults.temperature));
  sampling.set("top_p", static_cast<double>(defaults.top_p));
  sampling.set("top_k", defaults.top_k);
  sampling.set("min_p", static_cast<double>(defaults.min_p));
  limits.set("max_choices", services.options().max_choices);
  limits.set("max_prompts", services.options().max_prompts);
  limits.set("max_waiting", stats.queue_limit);
  limits.set("strict", services.options().strict);
  out.set("version", services.options().version);
  out.set("models", std::move(models));
  out.set("default_generation_settings", std::move(sampling));
  out.set("limits", std::move(limits));
  responder->json(200, out);
}

std::string_view auth_word(Auth auth) {
  switch (auth) {
    case Auth::kOpen:
      return "open";
    case Auth::kAdminKey:
      return "admin key";
    case Auth::kMetrics:
      return "key, or open by flag";
    case Auth::kApiKey:
      break;
  }
  return "key";
}

void help(Services&, const HttpRequest&, std::shared_ptr<Responder> responder) {
  std::string text;
  for (const Route* route : routes()) {
    text += route->method == Method::kPost ? "POST " : "GET  ";
    text += std::string(route->path) + "  (" + std::string(auth_word(route->auth)) + ")\n    ";
    text += std::string(route->summary) + "\n";
    for (const std::string_view alias : route->aliases) text += "    also " + std::string(alias) + "\n";
    for (const FieldSpec& f : route->fields) {
      if (f.type == "unsupported") continue;
      text += "    " + std::string(f.name) + "  " + std::string(f.type);
      if (!f.range.empty()) text += ", " + std::string(f.range);
      if (!f.summary.empty()) text += ": " + std::string(f.summary);
      text += "\n";
    }
  }
  responder->text(200, "text/plain; charset=utf-8", text);
}

Json properties_of(const Route& route) {
  Json properties = Json::object();
  for (const FieldSpec& f : route.fields) {
    if (f.type == "unsupported") continue;
    Json field = Json::object();
    for (const std::string_view plain : {"string", "number", "integer", "boolean", "object"}) {
      if (f.type == plain) field.set("type", plain);
    }
    std::string text(f.type);
    if (!f.range.empty()) text += "; " + std::string(f.range);
    if (!f.summary.empty()) text += "; " + std::string(f.summary);
    field.set("description", std::move(text));
    properties.set(f.name, std::move(field));
  }
  return properties;
}

void openapi(Services& services, const HttpRequest&, std::shared_ptr<Responder> responder) {
  Json out = Json::object(), info = Json::object(), paths = Json::object();
  info.set("title", "Bora");
  info.set("version", services.options().version);
  for (const Route* route : routes()) {
    Json operation = Json::object(), replies = Json::object(), good = Json::object(), item = Json::object();
    operation.set("summary", route->summary);
    good.set("description", "done");
    replies.set("200", std::move(good));
    operation.set("responses", std::move(replies));
    if (!route->fields.empty()) {
      Json schema = Json::object(), media = Json::object(), content = Json::object(), body = Json::object();
      schema.set("type", "object");
      schema.set("properties", properties_of(*route));
      media.set("schema", std::move(schema));
      content.set("application/json", std::move(media));
      body.set("content", std::move(content));
      body.set("required", true);
      operation.set("requestBody", std::move(body));
    }
    item.set(route->method == Method::kPost ? "post" : "get", std::move(operation));
    paths.set(route->path, std::move(item));
  }
  out.set("openapi", "3.1.0");
  out.set("info", std::move(info));
  out.set("paths", std::move(paths));
  responder->json(200, out);
}

constexpr std::string_view kPropsAliases[] = {"/server_info", "/get_server_info"};

}  // namespace

extern const Route kMetrics, kVersion, kProps, kHelp, kOpenApi;
const Route kMetrics = {Method::kGet, "/metrics", {}, "Prometheus metrics", Auth::kMetrics, {}, "", metrics};
const Route kVersion = {Method::kGet, "/version", {}, "What was built", Auth::kApiKey, {}, "", version};
const Route kProps = {Method::kGet, "/props", kPropsAliases, "Settings in effect", Auth::kApiKey, {}, "", props};
const Route kHelp = {Method::kGet, "/help", {}, "The routes and their fields", Auth::kApiKey, {}, "", help};
const Route kOpenApi = {Method::kGet, "/openapi.json", {}, "The same as an OpenAPI document", Auth::kApiKey, {},
                        "",           openapi};

}  // namespace bora::serve
