// For tests: fixture folders, xz files and JSON lines.
#pragma once

#include <gtest/gtest.h>
#include <lzma.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::text::testing {

inline std::filesystem::path fixture_root() {
  const char* root = std::getenv("BORA_FIXTURES");
  if (root && *root) return root;
  return std::filesystem::path(BORA_SOURCE_DIR) / ".." / "shared";
}

// Runs take a tenth of each file unless BORA_TEST_FULL is set.
inline bool full_run() {
  const char* full = std::getenv("BORA_TEST_FULL");
  return full && *full && *full != '0';
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string read_xz(const std::filesystem::path& path) {
  std::string packed = read_file(path);
  std::string out;
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, UINT64_MAX, 0) != LZMA_OK) return out;
  stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::vector<uint8_t> buffer(1 << 20);
  lzma_ret rc = LZMA_OK;
  while (rc == LZMA_OK) {
    stream.next_out = buffer.data();
    stream.avail_out = buffer.size();
    rc = lzma_code(&stream, LZMA_FINISH);
    out.append(reinterpret_cast<const char*>(buffer.data()), buffer.size() - stream.avail_out);
  }
  lzma_end(&stream);
  return out;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The tokenizer.json of a fixture name, or empty when it is not there.
inline std::string tokenizer_json(const std::string& name) {
  std::filesystem::path root = fixture_root();
  for (const char* folder : {"fixtures/text/tokenizers", "data/tokenizers"}) {
    std::filesystem::path plain = root / folder / (name + ".tokenizer.json");
    if (std::filesystem::exists(plain)) return read_file(plain);
    std::filesystem::path packed = root / folder / (name + ".tokenizer.json.xz");
    if (std::filesystem::exists(packed)) return read_xz(packed);
  }
  return {};
}

// Seeds are printed, so that a failure can be run again.
inline uint64_t test_seed() {
  const char* given = std::getenv("BORA_TEST_SEED");
  uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  static bool printed = false;
  if (!printed) std::printf("seed %llu (BORA_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  printed = true;
  return seed;
}

// Indexes of the cases of a file to run: all, or a random tenth (at least ten).
inline std::vector<size_t> pick(size_t count, uint64_t seed) {
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = i;
  if (full_run()) return all;
  std::mt19937_64 rng(seed);
  std::shuffle(all.begin(), all.end(), rng);
  all.resize(std::min(count, std::max<size_t>(10, (count + 9) / 10)));
  return all;
}

inline std::vector<TokenId> ids_of(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& v : list.items()) ids.push_back(static_cast<TokenId>(v.as_int()));
  return ids;
}

}  // namespace bora::text::testing
