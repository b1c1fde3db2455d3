// Families against golden logits, hidden states and greedy tokens of the reference library, by the float64
// interpreter.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "model/run.h"

namespace bora::model {
namespace {

const char* const kFixtures[] = {
    "llama-mha",       "llama-gqa-llama3-tied", "llama-bias",      "llama-linear-rope", "mistral-sliding",
    "qwen2-tied",      "qwen2-window",          "qwen3-dense",     "gemma3-text",       "gemma3-linear",
    "gemma3-wrapped",  "gguf-llama-f16",        "gguf-llama-q4_0", "gguf-llama-q8_0",   "gguf-qwen3-f16",
    "gguf-qwen3-q4_0", "gguf-gemma3-f16",       "gguf-wide-mixed", "gguf-wide-q4_k_m"};

std::string families_root() {
  const char* root = std::getenv("BORA_FIXTURES");
  return std::string(root ? root : BORA_SOURCE_DIR "/../shared") + "/fixtures/families";
}

struct Golden {
  Json json;
  std::unique_ptr<formats::Checkpoint> values;
  std::vector<float> tensor(const std::string& name) const {
    const formats::TensorEntry* t = values->find(name);
    BORA_CHECK(t != nullptr && t->dtype == DType::kF32, "golden tensor is missing");
    std::vector<float> out(static_cast<size_t>(t->shape.elements()));
    std::memcpy(out.data(), values->bytes(*t).data(), out.size() * 4);
    return out;
  }
};

class Goldens : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    dir_ = families_root() + "/" + GetParam();
    if (!std::filesystem::exists(dir_)) GTEST_SKIP() << "fixture " << GetParam() << " is absent";
    golden_.json = *Json::parse(*files_->read(dir_ + "/golden.json", 1 << 24));
    golden_.values = *formats::open_checkpoint(*files_, dir_ + "/golden.safetensors");
    const std::string file = std::string(GetParam()).rfind("gguf-", 0) == 0 ? "/model.gguf" : "";
    auto checkpoint = formats::open_checkpoint(*files_, file.empty() ? dir_ + "/model.safetensors" : dir_ + file);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    checkpoint_ = *std::move(checkpoint);
  }
  Model build() {
    auto m = build_model(*checkpoint_, {.kv_dtype = DType::kF64, .hidden_outputs = true});
    BORA_CHECK(m.ok(), m.status().message().c_str());
    return *std::move(m);
  }
  std::vector<int32_t> ids(const Json& prompt) const {
    std::vector<int32_t> out;
    for (const Json& id : prompt.find("ids")->items()) out.push_back(static_cast<int32_t>(id.as_int()));
    return out;
  }

  std::string dir_;
  std::unique_ptr<FileSystem> files_ = make_os_file_system();
  std::unique_ptr<formats::Checkpoint> checkpoint_;
  Golden golden_;
};

double worst(std::span<const double> got, const std::vector<float>& want) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) most = std::max(most, std::abs(got[i] - static_cast<double>(want[i])));
  return most;
}

// Relative to the largest entry; `got` may hold more rows, the last counts.
void expect_hidden(const ReferenceRun& run, const std::string& name, std::span<const float> want) {
  auto got = run.output(name);
  ASSERT_TRUE(got.ok()) << got.status().message();
  const std::span<const double> last = got->subspan(got->size() - want.size());
  double most = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    most = std::max(most, std::abs(last[i] - static_cast<double>(want[i])));
    size = std::max(size, std::abs(static_cast<double>(want[i])));
  }
  EXPECT_LE(most, 1e-4 * size) << name;
}

TEST_P(Goldens, LogitsHiddenStatesAndGreedyTokens) {
  const Model model = build();
  const Json& prompts = *golden_.json.find("prompts");
  const double noise = golden_.json.find("noise")->find("f32_vs_f64")->find("max_abs")->as_double();
  const double bound = std::max(1e-4, 5 * noise);
  double most = 0;
  for (size_t p = 0; p < prompts.size(); ++p) {
    const Json& prompt = prompts.items()[p];
    const std::vector<int32_t> tokens = ids(prompt);
    const std::string key = "prompt" + std::to_string(p);
    auto run = ReferenceRun::create(*checkpoint_, model, static_cast<int32_t>(tokens.size()) + 32);
    ASSERT_TRUE(run.ok());
    const int32_t rows = static_cast<int32_t>(prompt.find("logit_positions")->size());
    ASSERT_TRUE((*run)->feed(tokens, rows).ok());
    const double difference = worst(*(*run)->logits(), golden_.tensor(key + ".logits"));
    EXPECT_LE(difference, bound) << key;
    most = std::max(most, difference);
    if (p > 0) {
      expect_hidden(**run, "hidden.embed", golden_.tensor(key + ".hidden.embed"));
      const std::vector<float> layers = golden_.tensor(key + ".hidden.layers");
      const size_t n = layers.size() / static_cast<size_t>(model.info.layers);
      for (int32_t l = 0; l < model.info.layers; ++l) {
        expect_hidden(**run, "hidden.layers." + std::to_string(l),
                      std::span(layers).subspan(static_cast<size_t>(l) * n, n));
      }
      expect_hidden(**run, "hidden.final_norm", golden_.tensor(key + ".hidden.final_norm"));
    }
    std::vector<int32_t> greedy, want;
    for (const Json& id : prompt.find("greedy")->items()) want.push_back(static_cast<int32_t>(id.as_int()));
    const size_t vocab = static_cast<size_t>(model.info.vocab);
    while (greedy.size() < want.size()) {
      const std::span<const double> logits = *(*run)->logits();
      greedy.push_back(argmax(logits.last(vocab)));
      if (greedy.size() < want.size()) {
        ASSERT_TRUE((*run)->feed(std::span(greedy).last(1), 1).ok());
      }
    }
    EXPECT_EQ(greedy, want) << key;
  }
  std::printf("%-24s largest logit difference %.2e (bound %.0e)\n", GetParam(), most, bound);
}

TEST_P(Goldens, ChunksGiveTheSameLogits) {
  const Model model = build();
  const std::vector<int32_t> tokens = ids(golden_.json.find("prompts")->items()[2]);
  auto whole = ReferenceRun::create(*checkpoint_, model, 128), parts = ReferenceRun::create(*checkpoint_, model, 128);
  ASSERT_TRUE((*whole)->feed(tokens, 1).ok());
  for (size_t at = 0; at < tokens.size(); at += 16) {
    ASSERT_TRUE((*parts)->feed(std::span(tokens).subspan(at, std::min<size_t>(16, tokens.size() - at)), 1).ok());
  }
  const std::span<const double> a = *(*whole)->logits(), b = *(*parts)->logits();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

class OlderLayout : public Goldens {};

TEST_P(OlderLayout, GivesEqualBits) {
  // The same directory with the older file in place of the newer one.
  const std::string twin = (std::filesystem::temp_directory_path() /
                            ("bora_legacy_" + std::to_string(::getpid()) + std::string(GetParam())))
                               .string();
  std::filesystem::create_directories(twin);
  std::filesystem::copy_file(dir_ + "/config.legacy.json", twin + "/config.json",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(dir_ + "/model.safetensors", twin + "/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  {
    auto other = formats::open_checkpoint(*files_, twin);
    ASSERT_TRUE(other.ok()) << other.status().message();
    auto old_model = build_model(**other, {.kv_dtype = DType::kF64, .hidden_outputs = true});
    ASSERT_TRUE(old_model.ok()) << old_model.status().message();
    const Model model = build();
    const std::vector<int32_t> tokens = ids(golden_.json.find("prompts")->items()[2]);
    auto a = ReferenceRun::create(*checkpoint_, model, 128), b = ReferenceRun::create(**other, *old_model, 128);
    ASSERT_TRUE((*a)->feed(tokens, 4).ok() && (*b)->feed(tokens, 4).ok());
    const std::span<const double> x = *(*a)->logits(), y = *(*b)->logits();
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end()));
  }
  std::filesystem::remove_all(twin);
}

// The suite must notice what users would suffer from: each mutant of the graph moves the logits of the long prompt.
TEST_P(Goldens, MutantsAreNoticed) {
  const Model good = build();
  const std::vector<int32_t> tokens = ids(golden_.json.find("prompts")->items()[2]);
  const std::vector<float> want = golden_.tensor("prompt2.logits");
  const int32_t rows = static_cast<int32_t>(want.size()) / good.info.vocab;
  const double noise = golden_.json.find("noise")->find("f32_vs_f64")->find("max_abs")->as_double();
  struct Mutant {
    const char* name;
    bool (*change)(ir::Node&);
  };
  const Mutant mutants[] = {{"eps a hundred times",  // ten times stays below the bound on one fixture
                             [](ir::Node& n) {
                               if (n.op->name != "norm") return false;
                               n.attrs.set("eps", n.attrs.get_double("eps", 0) * 100);
                               return true;
                             }},
                            {"rotation in the other layout",
                             [](ir::Node& n) {
                               if (n.op->name != "rope") return false;
                               n.attrs.set("interleaved", true);
                               return true;
                             }},
                            {"missing scale",
                             [](ir::Node& n) {
                               if (n.op->name != "attention") return false;
                               n.attrs.set("scale", 1.0);
                               return true;
                             }},
                            {"window off by one", [](ir::Node& n) {
                               if (n.op->name != "attention" || n.attrs.get_int("window", 0) == 0) return false;
                               n.attrs.set("window", n.attrs.get_int("window", 0) + 1);
                               return true;
                             }}};
  int tried = 0;
  for (const Mutant& m : mutants) {
    Model bad = good;
    bool changed = false;
    for (ir::Node& n : bad.graph.nodes) changed |= m.change(n);
    if (!changed) continue;
    auto run = ReferenceRun::create(*checkpoint_, bad, 128);
    ASSERT_TRUE((*run)->feed(tokens, rows).ok());
    EXPECT_GT(worst(*(*run)->logits(), want), std::max(1e-4, 5 * noise)) << m.name << " was not noticed";
    ++tried;
  }
  EXPECT_GE(tried, 3);
}

std::string sha256(const std::vector<float>& values) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(values.data(), values.size() * 4, digest, &length, EVP_sha256(), nullptr);
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", digest[i]);
    out += hex;
  }
  return out;
}

class DecodedWeights : public Goldens {};

// Whole dequantized matrices in the order of the twin: rotation pairs undone, norms as the other format stores them.
TEST_P(DecodedWeights, EqualTheReferenceBitByBit) {
  const Json* hashes = golden_.json.find("dequant_sha256");
  ASSERT_NE(hashes, nullptr);
  const Model model = build();
  size_t compared = 0;
  for (const ir::WeightDecl& decl : model.graph.weights) {
    if (decl.same_as.valid()) continue;
    std::vector<float> all;
    ASSERT_TRUE(decode_weight(*checkpoint_, decl, &all).ok());
    const int64_t cols = decl.shape.size() > 1 ? decl.shape[1] : 1;
    for (const ir::Part& part : decl.parts) {
      std::vector<float> rows(all.begin() + part.row * cols, all.begin() + (part.row + part.rows) * cols);
      if (model.info.family == "gemma3" && cols == 1) {
        for (float& v : rows) v -= 1;
      }
      const Json* want = hashes->find(part.source);
      ASSERT_NE(want, nullptr) << part.source;
      EXPECT_EQ(sha256(rows), want->as_string()) << part.source;
      ++compared;
    }
  }
  // Tables of rotation factors are no weights.
  EXPECT_GE(compared + 1, hashes->size());
}

std::string case_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Wave1, OlderLayout,
                         testing::Values("llama-mha", "llama-gqa-llama3-tied", "llama-linear-rope", "mistral-sliding",
                                         "qwen2-tied", "qwen3-dense", "gemma3-text", "gemma3-linear"),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Wave1, DecodedWeights,
                         testing::Values("gguf-llama-f16", "gguf-llama-q4_0", "gguf-llama-q8_0", "gguf-qwen3-f16",
                                         "gguf-qwen3-q4_0", "gguf-gemma3-f16", "gguf-wide-mixed", "gguf-wide-q4_k_m"),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Wave1, Goldens, testing::ValuesIn(kFixtures), case_name);

}  // namespace
}  // namespace bora::model
