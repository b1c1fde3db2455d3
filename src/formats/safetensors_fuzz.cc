// Any bytes as a safetensors file: an index whose every tensor can be read, or an error.
#include "formats/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return bora::formats::fuzz_file("x.safetensors", data, size);
}
