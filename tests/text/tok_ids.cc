// Encodes documents with one vocabulary, for the comparison scripts beside this file.
//
//   text_tok_ids VOCABULARY DOCUMENTS IDS
// VOCABULARY: tokenizer.json, tekken*.json, *.gguf, a SentencePiece *.model, or ranks *.tiktoken with the split pattern
// in *.tiktoken.pattern.
// DOCUMENTS and IDS are sequences of {u32 count, count items}: bytes in, int32 ids out. Prints one JSON line with the
// seconds of loading, of the first encoding in this process, of decoding, and the resident memory after loading (the
// file's text is freed by then).
#include <time.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer/gguf_file_for_test.h"
#include "text/tokenizer/tokenizer.h"

namespace {

std::string slurp(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool ends_with(const std::string& path, std::string_view suffix) {
  return path.size() >= suffix.size() && path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool is_tekken(const std::string& path) {
  return path.compare(path.rfind('/') + 1, 6, "tekken") == 0;  // npos + 1 is 0
}

using Loaded = bora::Result<std::unique_ptr<bora::text::Tokenizer>>;

Loaded load_file(const std::string& path, const std::string& bytes) {
  if (ends_with(path, ".gguf")) {
    bora::text::testing::GgufHead head;
    head.bytes = bytes;
    head.parse();
    return bora::text::tokenizer_from_gguf(head.vocab());
  }
  if (ends_with(path, ".model")) return bora::text::tokenizer_from_sentencepiece(bytes);
  if (ends_with(path, ".tiktoken")) {
    std::string pattern = slurp((path + ".pattern").c_str());
    while (!pattern.empty() && pattern.back() == '\n') pattern.pop_back();
    return bora::text::tokenizer_from_tiktoken(bytes, pattern, {});
  }
  if (is_tekken(path)) return bora::text::tokenizer_from_tekken(bytes);
  return bora::text::tokenizer_from_json(bytes, "");
}

// Seconds of this process on a processor: the same whether or not others use the machine.
double now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double resident_mb() {
  std::ifstream in("/proc/self/statm");
  long total = 0;
  long resident = 0;
  in >> total >> resident;
  return static_cast<double>(resident) * 4096 / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s VOCABULARY DOCUMENTS IDS\n", argv[0]);
    return 2;
  }
  double resident = 0;
  double load = 0;
  std::unique_ptr<bora::text::Tokenizer> tokenizer;
  {
    std::string bytes = slurp(argv[1]);
    if (ends_with(argv[1], ".gguf")) bytes.resize(std::min(bytes.size(), size_t{40} << 20));
    double begin = now();
    Loaded loaded = load_file(argv[1], bytes);
    load = now() - begin;
    if (!loaded.ok()) {
      std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
      return 1;
    }
    tokenizer = std::move(loaded).value();
  }
  resident = resident_mb();
  std::string packed = slurp(argv[2]);
  std::vector<std::string> documents;
  size_t bytes = 0;
  for (size_t pos = 0; pos + 4 <= packed.size();) {
    uint32_t n;
    __builtin_memcpy(&n, packed.data() + pos, 4);
    documents.push_back(packed.substr(pos + 4, n));
    pos += 4 + n;
    bytes += n;
  }
  std::vector<std::vector<bora::text::TokenId>> ids(documents.size());
  // The libraries behind the other formats never look for special tokens in a text.
  bool parse = ends_with(argv[1], ".gguf") || (ends_with(argv[1], ".json") && !is_tekken(argv[1]));
  double begin = now();
  for (size_t i = 0; i < documents.size(); ++i) tokenizer->encode(documents[i], {false, parse}, &ids[i]);
  double encode = now() - begin;
  begin = now();
  size_t back = 0;
  for (const auto& list : ids) back += tokenizer->decode(list, {false}).size();
  double decode = now() - begin;
  std::ofstream out(argv[3], std::ios::binary);
  for (const auto& list : ids) {
    auto n = static_cast<uint32_t>(list.size());
    out.write(reinterpret_cast<const char*>(&n), 4);
    out.write(reinterpret_cast<const char*>(list.data()), static_cast<std::streamsize>(n * sizeof(list[0])));
  }
  std::printf(
      "{\"bytes\": %zu, \"decoded\": %zu, \"load_s\": %.4f, \"encode_s\": %.4f, \"decode_s\": %.4f, \"rss_mb\": "
      "%.1f}\n",
      bytes, back, load, encode, decode, resident);
  return 0;
}
