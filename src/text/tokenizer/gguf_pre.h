// The split patterns that GGUF files name in tokenizer.ggml.pre.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bora::text {

struct GgufPre {
  std::string_view name;
  // Applied one after the other, matches isolated; an empty one stands for "every numeric character alone".
  std::vector<std::string_view> stages;
  bool nfc = false;            // normalizer
  bool ignore_merges = false;  // a piece that is a token is that token
  bool add_bos = false;        // when the file does not say
  bool wraps_in_sep = false;   // bos text eos, as encoders want it
};

// Values of tokenizer.ggml.model that are named after the first family
// that used them: byte-pair merges by score with byte
// fallback, and byte-pair merges by rank over text whose spaces are marked.
extern const std::string_view kGgufScoredBpe, kGgufSpaceMarkedBpe;
// Do files with this tokenizer.ggml.pre mark spaces instead of using the byte alphabet?
bool is_space_marked_pre(std::string_view name);

// Null when the name is not known.
const GgufPre* find_gguf_pre(std::string_view name);
// All names, for error messages and tests.
std::vector<std::string_view> gguf_pre_names();

}  // namespace bora::text
