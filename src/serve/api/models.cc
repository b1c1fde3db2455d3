// GET /v1/models, GET /v1/models/{id}
#include "serve/route.h"
#include "serve/services.h"

namespace bora::serve {
namespace {

Json model_json(Services& services, const ServedModel& model) {
  Json out = Json::object(), meta = Json::object();
  out.set("id", model.name);
  out.set("object", "model");
  out.set("created", model.created);
  out.set("owned_by", "local");
  out.set("max_model_len", model.max_context);
  meta.set("n_vocab", model.text->tokenizer->vocab_size());
  meta.set("n_ctx", model.max_context);
  meta.set("chat", model.text->chat_template != nullptr);
  for (const engine::ModelState& state : services.frontend().models()) {
    if (state.name == model.name) meta.set("state", state.state);
  }
  out.set("meta", std::move(meta));
  return out;
}

void list(Services& services, const HttpRequest&, std::shared_ptr<Responder> responder) {
  Json data = Json::array(), out = Json::object();
  for (const auto& model : services.models()) data.push_back(model_json(services, *model));
  out.set("object", "list");
  out.set("data", std::move(data));
  responder->json(200, out);
}

void one(Services& services, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  auto model = services.model(request.tail);
  if (!model.ok()) {
    const bool unknown = model.status().code() == Code::kNotFound;
    return responder->error({std::move(model).take_status(), "model", unknown ? "model_not_found" : ""});
  }
  responder->json(200, model_json(services, **model));
}

constexpr std::string_view kListAliases[] = {"/models"};
constexpr std::string_view kOneAliases[] = {"/models/{id}"};

}  // namespace

extern const Route kModels, kModel;
const Route kModels = {Method::kGet, "/v1/models", kListAliases, "The served models", Auth::kApiKey, {}, "", list};
const Route kModel = {Method::kGet, "/v1/models/{id}", kOneAliases, "One model", Auth::kApiKey,
                      {},           "test-model",      one};

}  // namespace bora::serve
