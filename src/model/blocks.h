// What families are made of: scoped weight names, rope tables, the attention and the gated mlp block, the pre-norm
// decoder.
//
// A block declares the weights that it uses; loading, sharding and memory follow from the declarations. A block
// option that only one family needs belongs in that family's file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "ir/builder.h"
#include "model/family.h"

namespace bora::model {

// Names below a prefix. `source` maps a canonical name to the checkpoint's.
class Weights {
 public:
  using Namer = std::function<std::string(std::string_view canonical)>;
  Weights(ir::Builder* builder, Namer source) : builder_(builder), source_(std::move(source)) {}

  Weights operator/(std::string_view name) const;
  Weights operator/(int32_t index) const { return *this / std::to_string(index); }

  struct PartSpec {
    std::string_view name;  // "q_proj": completed by the prefix and ".weight"
    int64_t rows = 0;
    ir::RowMap row_map = {};
  };
  // [sum of rows, cols]; `axis` = meaning of the rows.
  ir::WeightId matrix(std::vector<PartSpec> parts, int64_t cols, ir::Axis rows_axis, ir::Axis cols_axis) const;
  ir::WeightId bias(std::vector<PartSpec> parts, ir::Axis axis) const;  // ".bias"
  ir::WeightId vector(std::string_view name, int64_t n) const;          // ".weight", float
  std::string source_of(std::string_view canonical) const { return source_(canonical); }

 private:
  ir::WeightId declare(std::vector<PartSpec> parts, std::string_view suffix, std::vector<int64_t> shape,
                       std::vector<ir::Axis> axes, bool quantizable) const;
  ir::Builder* builder_;
  Namer source_;
  std::string prefix_;
};

// A table of rotations: angle of pair j at position p = p * inv_freq[j].
struct Rope {
  std::vector<double> inv_freq;
  double attention_factor = 1;
};
// `settings`: {rope_type, rope_theta, factor, …} as normalised by read_config. Unknown types are refused by name.
Result<Rope> make_rope(const Json& settings, int32_t dims);

struct AttentionSpec {
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 0;
  int32_t window = 0;  // 0: all positions
  Rope rope;
  bool qkv_bias = false, out_bias = false;
  bool qk_norm = false;                // per head, before the rotation
  double norm_eps = 0, norm_plus = 0;  // of qk_norm
  bool paired_rows = false;            // q and k rows lie as rotation pairs (2j, 2j+1) in the file
};
// x [T, hidden] normed -> [T, hidden].
ir::Value attention(ir::Builder& b, const Weights& w, ir::Value x, int32_t hidden, int32_t layer,
                    const AttentionSpec& spec, const BuildOptions& options);
ir::Value gated_mlp(ir::Builder& b, const Weights& w, ir::Value x, int32_t hidden, int32_t ffn, std::string_view kind,
                    bool bias);
ir::Value norm(ir::Builder& b, ir::WeightId weight, ir::Value x, double eps, double plus = 0);

// The settings that every family here reads.
struct DecoderSettings {
  int32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0, max_context = 0;
  double eps = 0;
  bool tied = false;
  std::vector<int32_t> windows;  // by layer, 0 = all positions
};
// Missing, negative or absurd values are errors that name the key.
Result<DecoderSettings> read_decoder(const ConfigSource& config);
void fill_info(const DecoderSettings& s, const ConfigSource& config, ModelInfo* info);

// Last layer's output -> gathered rows -> final norm -> logits.
void finish_logits(ir::Builder& b, const Weights& root, ir::Value x, ir::WeightId embedding, const DecoderSettings& s,
                   double norm_plus, double softcap, const BuildOptions& options);

// Embedding, pre-norm blocks (h += attention(norm(h)); h += mlp(norm(h))), logits. `spec(layer)` gives a layer's
// attention.
Status build_pre_norm(ir::Builder& b, const Weights& root, const DecoderSettings& s, bool mlp_bias,
                      const std::function<AttentionSpec(int32_t)>& spec, const BuildOptions& options);

}  // namespace bora::model
