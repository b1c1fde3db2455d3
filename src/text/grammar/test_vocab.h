// Test support: vocabularies from fixtures, and greedy splitting of a text into tokens.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/grammar/char_class.h"
#include "text/grammar/grammar.h"

namespace bora::text {

// Where the fixtures are: BORA_FIXTURES, else beside the source tree.
std::string fixtures_root();

struct TestVocab {
  std::vector<std::string> bytes;
  int32_t end_id = 0;
  std::unordered_map<std::string_view, int32_t> ids;
  std::shared_ptr<const GrammarVocab> vocab;
  size_t words() const { return (bytes.size() + 31) / 32; }

  // The longest token that starts the text at `pos`.
  int32_t longest(std::string_view text, size_t pos) const {
    for (size_t n = std::min<size_t>(text.size() - pos, 64); n > 0; --n) {
      auto it = ids.find(text.substr(pos, n));
      if (it != ids.end()) return it->second;
    }
    return -1;
  }
  void finish() {
    std::vector<std::string_view> views;
    for (size_t i = 0; i < bytes.size(); ++i) {
      views.push_back(bytes[i]);
      if (!bytes[i].empty()) ids.emplace(bytes[i], static_cast<int32_t>(i));
    }
    VocabView view{views, std::span(&end_id, 1)};
    vocab = *make_grammar_vocab(view);
  }
};

// Undoes the byte-level alphabet (a character below U+0100 that is printable stands for itself, the others were moved
// to U+0100 and above in byte order).
inline std::string byte_level_bytes(const std::string& token) {
  static const std::vector<int> kBytes = [] {
    std::vector<int> out(0x200, -1);
    int moved = 0x100;
    for (int b = 0; b < 256; ++b) {
      bool plain = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      out[static_cast<size_t>(plain ? b : moved++)] = b;
    }
    return out;
  }();
  std::string out;
  for (size_t pos = 0; pos < token.size();) {
    auto c = decode_utf8(token, &pos);
    if (!c || *c >= kBytes.size() || kBytes[*c] < 0) return {};
    out.push_back(static_cast<char>(kBytes[*c]));
  }
  return out;
}

// data/tokenizers/NAME.tokenizer.json.xz; empty when absent. Added tokens are left out (empty bytes).
inline TestVocab load_vocab(const std::string& name) {
  TestVocab out;
  std::string path = fixtures_root() + "/data/tokenizers/" + name + ".tokenizer.json.xz";
  std::string command = "xz -dc " + path + " 2>/dev/null";
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::vector<char> buffer(1 << 16);
  for (size_t n = 0; pipe && (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), n);
  if (pipe) pclose(pipe);
  auto json = Json::parse(text);
  if (!json.ok()) return out;
  for (const auto& [token, id] : json->find("model")->find("vocab")->members()) {
    auto index = static_cast<size_t>(id.as_int());
    if (out.bytes.size() <= index) out.bytes.resize(index + 1);
    out.bytes[index] = byte_level_bytes(token);
  }
  for (const Json& added : json->find("added_tokens")->items()) {
    auto index = static_cast<size_t>(added.find("id")->as_int());
    if (out.bytes.size() <= index) out.bytes.resize(index + 1);
    out.bytes[index].clear();
    out.end_id = static_cast<int32_t>(index);
  }
  out.finish();
  return out;
}

}  // namespace bora::text
