// A vocabulary as GGUF metadata, built from lines: "model pre", then "type score token" or "m left right".
#include <cstdlib>

#include "text/tokenizer/fuzz_use.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view in(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> tokens;
  std::vector<std::string_view> merges;
  std::vector<float> scores;
  std::vector<int32_t> types;
  bora::text::GgufVocab v;
  for (bool first = true; !in.empty(); first = false) {
    size_t end = std::min(in.find('\n'), in.size());
    std::string_view line = in.substr(0, end);
    in.remove_prefix(std::min(end + 1, in.size()));
    size_t a = std::min(line.find(' '), line.size());
    std::string_view head = line.substr(0, a);
    std::string_view rest = line.substr(std::min(a + 1, line.size()));
    if (first) {
      v.model = head;
      v.pre = rest;
    } else if (head == "m") {
      merges.push_back(rest);
    } else {
      size_t b = std::min(rest.find(' '), rest.size());
      types.push_back(head.empty() ? 1 : head[0] - '0');
      scores.push_back(std::strtof(std::string(rest.substr(0, b)).c_str(), nullptr));
      tokens.push_back(rest.substr(std::min(b + 1, rest.size())));
    }
  }
  v.tokens = tokens;
  v.merges = merges;
  v.scores = scores;
  v.token_types = types;
  v.bos = 1;
  v.eos = 2;
  v.unk = 0;
  auto t = bora::text::tokenizer_from_gguf(v);
  if (t.ok()) bora::text::use_tokenizer(**t);
  return 0;
}
