// Any bytes as tokenizer.model.
#include "text/tokenizer/fuzz_use.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto t = bora::text::tokenizer_from_sentencepiece({reinterpret_cast<const char*>(data), size});
  if (t.ok()) bora::text::use_tokenizer(**t);
  return 0;
}
