// Encodes documents with one tokenizer.json, for the comparison script beside this file.
//
//   text_tok_ids TOKENIZER_JSON DOCUMENTS IDS
// DOCUMENTS and IDS are sequences of {u32 count, count items}: bytes in, int32 ids out. Prints one JSON line with the
// seconds of loading, of the first encoding in this process, of decoding, and the resident memory after loading.
#include <time.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace {

std::string slurp(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
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
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON DOCUMENTS IDS\n", argv[0]);
    return 2;
  }
  double resident = 0;
  double load = 0;
  std::unique_ptr<bora::text::Tokenizer> tokenizer;
  {
    std::string json = slurp(argv[1]);
    double begin = now();
    auto loaded = bora::text::tokenizer_from_json(json, "");
    load = now() - begin;
    if (!loaded.ok()) {
      std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
      return 1;
    }
    tokenizer = std::move(loaded).value();
    resident = resident_mb();
  }
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
  double begin = now();
  for (size_t i = 0; i < documents.size(); ++i) tokenizer->encode(documents[i], {false, true}, &ids[i]);
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
