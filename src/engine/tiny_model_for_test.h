// A checkpoint of a few kilobytes, written where a test says: one layer, a vocabulary of 64 that has control tokens,
// half characters and words that make stop strings likely.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace bora::engine::testing {

constexpr int32_t kTinyVocab = 64;
constexpr int32_t kTinyEos = 2, kTinyMark = 3;

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string tiny_tokenizer() {
  std::vector<std::string> words = {"<pad>", "<s>", "</s>", "<|mark|>"};
  for (char c = 'a'; c <= 'z'; ++c) words.emplace_back(1, c);
  for (const char* w : {"Ġ", "Ã", "©", "Ċ", "ab", "bc", "abc", "sto", "op", "st", "ĠĠ", "aa", "ba", "ca", "Ġa", "Ġb"})
    words.emplace_back(w);
  while (static_cast<int32_t>(words.size()) < kTinyVocab)
    words.push_back(std::string("x") + static_cast<char>('a' + words.size() % 26) + "y");
  std::string vocab;
  for (size_t i = 0; i < words.size(); ++i) vocab += (i ? ",\"" : "\"") + words[i] + "\":" + std::to_string(i);
  std::string added;
  for (int i = 0; i < 4; ++i) {
    added += std::string(i ? "," : "") + R"({"id":)" + std::to_string(i) + R"(,"content":")" +
             words[static_cast<size_t>(i)] +
             R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  }
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)"
         R"("trim_offsets":true,"use_regex":true},)" +
         R"("post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,)"
         R"("trim_offsets":true,"use_regex":true},)" +
         R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
         R"("end_of_word_suffix":null,)" +
         R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{)" + vocab + R"(},"merges":[]}})";
}

// Weights are all zero: for devices without arithmetic.
inline std::string write_tiny_model(const std::filesystem::path& dir, int32_t context = 256) {
  std::filesystem::create_directories(dir);
  const std::vector<std::pair<std::string, std::pair<int, int>>> tensors = {
      {"model.embed_tokens.weight", {kTinyVocab, 32}},
      {"model.layers.0.input_layernorm.weight", {32, 0}},
      {"model.layers.0.self_attn.q_proj.weight", {32, 32}},
      {"model.layers.0.self_attn.k_proj.weight", {32, 32}},
      {"model.layers.0.self_attn.v_proj.weight", {32, 32}},
      {"model.layers.0.self_attn.o_proj.weight", {32, 32}},
      {"model.layers.0.post_attention_layernorm.weight", {32, 0}},
      {"model.layers.0.mlp.gate_proj.weight", {32, 32}},
      {"model.layers.0.mlp.up_proj.weight", {32, 32}},
      {"model.layers.0.mlp.down_proj.weight", {32, 32}},
      {"model.norm.weight", {32, 0}}};
  std::string header = "{";
  size_t at = 0;
  for (const auto& [name, shape] : tensors) {
    const size_t bytes = static_cast<size_t>(shape.first) * static_cast<size_t>(shape.second ? shape.second : 1) * 4;
    header += (at ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)" + std::to_string(shape.first) +
              (shape.second ? "," + std::to_string(shape.second) : "") + R"(],"data_offsets":[)" +
              std::to_string(at) + "," + std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  write_file(dir / "model.safetensors", file + header + std::string(at, '\0'));
  write_file(
      dir / "config.json",
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":32,"intermediate_size":32,)"
      R"("num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":16,"hidden_act":"silu",)"
      R"("rms_norm_eps":1e-6,"rope_theta":10000.0,"tie_word_embeddings":true,"attention_bias":false,)"
      R"("mlp_bias":false,)"
      R"("bos_token_id":1,"eos_token_id":2,"vocab_size":)" +
          std::to_string(kTinyVocab) + R"(,"max_position_embeddings":)" + std::to_string(context) + "}");
  write_file(dir / "tokenizer.json", tiny_tokenizer());
  write_file(dir / "tokenizer_config.json", R"({"eos_token":"</s>","bos_token":"<s>","chat_template":)"
                                            R"("{% for m in messages %}{{ m['content'] }}{% endfor %}"})");
  return (dir / "model.safetensors").string();
}

}  // namespace bora::engine::testing
