// GET /health, /health/live, /health/ready: for supervisors and load balancers; open to everybody, tell nothing else.
#include "serve/route.h"
#include "serve/services.h"

namespace bora::serve {
namespace {

void ready(Services& services, const HttpRequest&, std::shared_ptr<Responder> responder) {
  const Status status = services.ready();
  if (status.ok()) {
    Json out = Json::object();
    out.set("status", "ok");
    return responder->json(200, out);
  }
  responder->error({status, "", ""});
}

// The process answers and its engine lives: a restart would not help.
void live(Services& services, const HttpRequest&, std::shared_ptr<Responder> responder) {
  if (services.frontend().stats().dead)
    return responder->error({unavailable("the engine has ended; restart the server"), "", ""});
  Json out = Json::object();
  out.set("status", "ok");
  responder->json(200, out);
}

constexpr std::string_view kAliases[] = {"/v1/health"};

}  // namespace

extern const Route kHealth, kHealthLive, kHealthReady;
const Route kHealth = {Method::kGet, "/health", kAliases, "200 when requests are answered",
                       Auth::kOpen,  {},        "",       ready};
const Route kHealthReady = {Method::kGet, "/health/ready", {}, "200 when requests are answered", Auth::kOpen, {}, "",
                            ready};
const Route kHealthLive = {
    Method::kGet, "/health/live", {}, "200 while a restart would not help", Auth::kOpen, {}, "", live};

}  // namespace bora::serve
