// Requests in pieces of any size: the same answer as whole, and nothing worse than a refusal.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "net/server.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  bora::net::ServerOptions options;
  options.max_body_bytes = 4096;
  options.max_head_bytes = 2048;
  bora::net::Request whole, pieces;
  const int a = bora::net::parse_request(bytes, bytes.size() + 1, options, &whole);
  const int b = bora::net::parse_request(bytes, 1 + data[0] % 16, options, &pieces);
  BORA_CHECK((a == 200) == (b == 200), "the cut of the bytes decides");
  if (a == 200) {
    BORA_CHECK(whole.body == pieces.body && whole.path == pieces.path && whole.headers == pieces.headers,
               "the cut of the bytes changes the request");
    BORA_CHECK(whole.body.size() <= options.max_body_bytes, "the body is over its limit");
  }
  return 0;
}
