// For tests: the tokenizer metadata at the head of a GGUF file, read by a minimal parser of our own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "text/tokenizer/fixture_files.h"

namespace bora::text::testing {

// Owns what a GgufVocab points to.
struct GgufHead {
  std::string bytes;
  std::map<std::string, std::string_view> strings;
  std::map<std::string, int64_t> integers;  // booleans too
  std::map<std::string, std::vector<std::string_view>> string_lists;
  std::vector<float> scores;
  std::vector<int32_t> types;

  template <typename T>
  T take(size_t* pos) const {
    T value{};
    if (*pos + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + *pos, sizeof(T));
    *pos += sizeof(T);
    return value;
  }
  std::string_view take_string(size_t* pos) const {
    auto n = take<uint64_t>(pos);
    if (n > bytes.size() || *pos > bytes.size() - n) return {};
    *pos += n;
    return {bytes.data() + *pos - n, n};
  }

  void parse() {
    size_t pos = 16;
    auto count = take<uint64_t>(&pos);
    static constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint64_t i = 0; i < count && pos < bytes.size(); ++i) {
      std::string key(take_string(&pos));
      auto type = take<uint32_t>(&pos);
      if (type == 8) {
        strings[key] = take_string(&pos);
      } else if (type == 9) {
        auto inner = take<uint32_t>(&pos);
        auto n = take<uint64_t>(&pos);
        for (uint64_t k = 0; k < n; ++k) {
          if (inner == 8) {
            string_lists[key].push_back(take_string(&pos));
          } else if (key == "tokenizer.ggml.scores") {
            scores.push_back(take<float>(&pos));
          } else if (key == "tokenizer.ggml.token_type") {
            types.push_back(take<int32_t>(&pos));
          } else {
            pos += kSizes[inner];
          }
        }
      } else {
        if (type == 4 || type == 5)
          integers[key] = take<int32_t>(&pos);
        else if (type == 7)
          integers[key] = take<uint8_t>(&pos);
        else
          pos += kSizes[type];
      }
    }
  }

  GgufVocab vocab() {
    auto integer = [&](const char* key) -> std::optional<int64_t> {
      auto it = integers.find(std::string("tokenizer.ggml.") + key);
      if (it == integers.end()) return std::nullopt;
      return it->second;
    };
    auto boolean = [&](const char* key) -> std::optional<bool> {
      auto v = integer(key);
      if (!v) return std::nullopt;
      return *v != 0;
    };
    GgufVocab v;
    v.model = strings["tokenizer.ggml.model"];
    v.pre = strings["tokenizer.ggml.pre"];
    v.tokens = string_lists["tokenizer.ggml.tokens"];
    v.merges = string_lists["tokenizer.ggml.merges"];
    v.scores = scores;
    v.token_types = types;
    v.bos = integer("bos_token_id");
    v.eos = integer("eos_token_id");
    v.unk = integer("unknown_token_id");
    v.pad = integer("padding_token_id");
    v.add_bos = boolean("add_bos_token");
    v.add_eos = boolean("add_eos_token");
    v.add_space_prefix = boolean("add_space_prefix");
    return v;
  }
};

// Folder of model files for tests: BORA_MODELS, else build/models.
inline std::filesystem::path model_folder() {
  const char* given = std::getenv("BORA_MODELS");
  if (given && *given) return given;
  return std::filesystem::path(BORA_SOURCE_DIR) / "build/models";
}

// The head of a model file that may lie in pieces ".part00", ...; null when absent.
inline std::unique_ptr<GgufHead> read_gguf_head(const std::string& file, std::string* why) {
  auto path = model_folder() / file;
  if (!std::filesystem::exists(path)) path = model_folder() / (file + ".part00");
  if (!std::filesystem::exists(path)) {
    *why = file + " in BORA_MODELS or build/models";
    return nullptr;
  }
  auto head = std::make_unique<GgufHead>();
  std::ifstream in(path, std::ios::binary);
  head->bytes.resize(32u << 20);
  in.read(head->bytes.data(), static_cast<std::streamsize>(head->bytes.size()));
  head->bytes.resize(static_cast<size_t>(in.gcount()));
  head->parse();
  return head;
}

inline std::unique_ptr<Tokenizer> from_gguf_file(const std::string& file, std::string* why) {
  auto head = read_gguf_head(file, why);
  if (!head) return nullptr;
  auto t = tokenizer_from_gguf(head->vocab());
  EXPECT_TRUE(t.ok()) << file << ": " << t.status().message();
  return t.ok() ? std::move(t).value() : nullptr;
}
inline std::unique_ptr<Tokenizer> gemma3_from_gguf(std::string* why) {
  return from_gguf_file("gemma-3-270m-q4_k_m.gguf", why);
}
inline std::unique_ptr<Tokenizer> smollm2_from_gguf(std::string* why) {
  return from_gguf_file("SmolLM2-135M-Instruct.Q4_1.gguf", why);
}

}  // namespace bora::text::testing
