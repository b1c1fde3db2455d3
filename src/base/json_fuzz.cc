// What parses must dump to something that parses to an equal value.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto first = bora::Json::parse({reinterpret_cast<const char*>(data), size});
  if (!first.ok()) return 0;
  auto second = bora::Json::parse(first->dump());
  BORA_CHECK(second.ok() && *second == *first, "dump does not read back");
  return 0;
}
