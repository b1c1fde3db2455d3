// The server over the fake front end as a process: official clients are tested against it without a model.
// Prints "ready URL", serves until its standard input ends.
#include <cstdio>
#include <string>

#include "serve/api.h"
#include "serve/fake_frontend.h"
#include "serve/generation.h"

int main() {
  using namespace bora;
  serve::test::FakeFrontend frontend;
  SystemClock clock;
  MetricsRegistry metrics;
  const auto log = make_null_logger();
  const auto files = make_os_file_system();
  const auto text = serve::test::make_text();
  auto keys = serve::Keys::create({{"sk-test-0123456789"}, {}, "", ""}, files.get());
  if (!keys.ok()) return 1;
  serve::ServiceOptions options;
  options.vllm_names = true;
  serve::Services services(options, {&frontend, &clock, log.get(), &metrics});
  services.add_model({"test-model", text.get(), frontend.max_context, clock.unix_seconds(), false});
  serve::Api api({}, &services, keys->get());
  auto server = net::Server::start({}, &api);
  if (!server.ok()) return 1;
  std::printf("ready %s in 0 s\n", (*server)->url().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
