// A family: one function that reads a configuration and one that writes the graph. Everything else (loading,
// quantizing, sharding, adapter targets, state sizes, memory estimates, export) is derived from the weights it
// declares.
//
// Families are records in a list (families.cc), one file each in families/. Outside that folder no code names a
// family.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "formats/checkpoint.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace bora::model {

// The settings of a checkpoint under Hugging Face names, wherever they came from: config.json (old and new layouts
// are normalised), or GGUF keys translated. A family reads its fields from here and refuses what it does not
// understand by name.
struct ConfigSource {
  Json json = Json::object();  // normalised; multimodal wrappers already unwrapped to the text part
  std::string architecture;    // of config.json, or GGUF\'s general.architecture
  bool from_gguf = false;
};
Result<ConfigSource> read_config(const formats::Checkpoint& checkpoint);

// What every model has, for the layers above. Filled by the family.
struct ModelInfo {
  std::string family;
  int32_t layers = 0, hidden = 0, vocab = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int32_t max_context = 0;   // positions it was trained for
  std::vector<int32_t> eos;  // union of config, generation_config and tokenizer settings
  int32_t bos = -1;
  int64_t parameters = 0;  // from declared shapes; tied weights once
};

struct BuildOptions {
  DType kv_dtype = DType::kBF16;
  bool hidden_outputs = false;  // adds "hidden.embed", "hidden.layers.N", "hidden.final_norm" (last rows only)
  int32_t block = 16;
};

struct Model {
  ModelInfo info;
  ir::Graph graph;                          // entry "forward", output "logits"
  std::vector<ir::WeightBinding> bindings;  // by weight id, from the checkpoint's index
};

class Weights;  // blocks.h
struct Family {
  std::string_view name;
  std::span<const std::string_view> architectures;       // config.json "architectures"
  std::span<const std::string_view> gguf_architectures;  // general.architecture
  // Writes info and graph with weights declared under `root`. `config` was normalised.
  Status (*build)(const ConfigSource& config, const Weights& root, const BuildOptions& options, ir::Builder& builder,
                  ModelInfo* info);
  // Canonical last name of a layer's weight ("post_attention_layernorm") -> GGUF's, where it differs from the common
  // table; empty = the common one. Null = none differs.
  std::string (*gguf_leaf)(std::string_view leaf) = nullptr;
};

std::span<const Family* const> families();
// Reads the config, finds the family, builds the graph and binds every weight to the checkpoint's tensors. Errors
// name the architecture (and what is known), or the tensor that is missing or has another shape.
Result<Model> build_model(const formats::Checkpoint& checkpoint, const BuildOptions& options);
// The same for a configuration given apart (tests of older layouts, conversions).
Result<Model> build_model(const formats::Checkpoint& checkpoint, const ConfigSource& config,
                          const BuildOptions& options);

// A declared weight decoded to float32, rows in declared order: [rows * cols].
Status decode_weight(const formats::Checkpoint& checkpoint, const ir::WeightDecl& decl, std::vector<float>* out);
// A part as it lies in the checkpoint.
Result<quant::CodedMatrix> coded_part(const formats::Checkpoint& checkpoint, const ir::WeightDecl& decl,
                                      const ir::Part& part);

}  // namespace bora::model
