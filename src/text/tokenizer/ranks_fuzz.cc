// Any bytes as a rank file and as tekken.json.
#include "text/tokenizer/fuzz_use.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto t = bora::text::tokenizer_from_tekken(bytes); t.ok()) bora::text::use_tokenizer(**t);
  const bora::text::SpecialToken special[] = {{"<s>", 1000}};
  if (auto t = bora::text::tokenizer_from_tiktoken(bytes, R"(\p{L}+|\s+(?!\S)|\S)", special); t.ok()) {
    bora::text::use_tokenizer(**t);
  }
  return 0;
}
