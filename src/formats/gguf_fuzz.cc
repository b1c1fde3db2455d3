// Any bytes as a gguf file: an index whose every tensor can be read, or an error.
#include "formats/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return bora::formats::fuzz_file("x.gguf", data, size);
}
