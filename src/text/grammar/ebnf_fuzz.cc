// Any bytes as a GBNF grammar: an error or a grammar that survives a short walk.
#include <cstdint>
#include <string_view>

#include "text/grammar/grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto grammar = bora::text::compile_ebnf({reinterpret_cast<const char*>(data), size}, {});
  if (!grammar.ok()) return 0;
  auto m = (*grammar)->matcher(nullptr);
  for (std::string_view piece : {"{\"a\":", "[1,", "\"x\\u00", "1e", "  ", "}"}) {
    if (m->accept_text(piece)) (void)m->forced();
  }
  return 0;
}
