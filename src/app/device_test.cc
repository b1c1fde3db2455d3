// Devices run families as the interpreter does, and a row's bits never depend on what else is in the step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "app/backends.h"
#include "app/sequence.h"
#include "backend/cpu/isa.h"
#include "base/rng.h"
#include "model/run.h"

namespace bora::app {
namespace {

std::string fixture(const std::string& name) {
  const char* root = std::getenv("BORA_FIXTURES");
  const std::string dir = std::string(root ? root : BORA_SOURCE_DIR "/../shared") + "/fixtures/families/" + name;
  return name.rfind("gguf-", 0) == 0 ? dir + "/model.gguf" : dir + "/model.safetensors";
}

// Several sequences in one program, each with pages of its own.
class Batch {
 public:
  Batch(device::Device& device, const model::Model& m, device::WeightStore* weights, int32_t seqs, int32_t positions,
        int32_t tokens)
      : bounds_(bounds_for(m.graph, positions, tokens, seqs)),
        groups_(m.graph.groups.size()),
        vocab_(static_cast<size_t>(m.info.vocab)) {
    auto program = device.compile(m.graph, bounds_, {weights, m.bindings});
    BORA_CHECK(program.ok(), program.status().message().c_str());
    program_ = *std::move(program);
    stream_ = *device.stream();
    lengths_.resize(static_cast<size_t>(seqs));
  }
  struct Part {
    int32_t seq;
    std::vector<int32_t> ids;
  };
  // Logits of each part's last row.
  std::vector<std::vector<float>> step(const std::vector<Part>& parts) {
    std::vector<int32_t> ids, pos, seq, begin{0}, len, rows, table, slot;
    for (size_t i = 0; i < parts.size(); ++i) {
      int32_t& length = lengths_[static_cast<size_t>(parts[i].seq)];
      for (int32_t p = 0; p < bounds_.pages; ++p) table.push_back(parts[i].seq + p * bounds_.seqs);
      for (int32_t id : parts[i].ids) {
        ids.push_back(id);
        pos.push_back(length);
        seq.push_back(static_cast<int32_t>(i));
        slot.push_back((parts[i].seq + length / 16 * bounds_.seqs) * 16 + length % 16);
        ++length;
      }
      begin.push_back(static_cast<int32_t>(ids.size()));
      len.push_back(length);
      rows.push_back(begin.back() - 1);
    }
    device::StepPatch p;
    p.id = ++step_;
    p.tokens = static_cast<int32_t>(ids.size());
    p.seqs = static_cast<int32_t>(parts.size());
    p.ids = ids;
    p.pos = pos;
    p.seq = seq;
    p.seq_begin = begin;
    p.kv_len = len;
    p.rows = rows;
    for (size_t g = 0; g < groups_; ++g) p.groups.push_back({table, slot, {}, {}});
    Status s = program_->launch("forward", p, *stream_);
    BORA_CHECK(s.ok(), s.message().c_str());
    s = program_->collect(p.id, &result_);
    BORA_CHECK(s.ok(), s.message().c_str());
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto row = program_->logits().subspan(i * vocab_, vocab_);
      out.emplace_back(row.begin(), row.end());
    }
    return out;
  }
  void forget(int32_t seq) { lengths_[static_cast<size_t>(seq)] = 0; }

 private:
  device::Bounds bounds_;
  size_t groups_, vocab_;
  std::unique_ptr<device::Program> program_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<int32_t> lengths_;
  device::StepId step_ = 0;
  device::StepResult result_;
};

struct Loaded {
  std::unique_ptr<FileSystem> files = make_os_file_system();
  std::unique_ptr<formats::Checkpoint> checkpoint;
  model::Model model;
  std::unique_ptr<CheckpointWeights> weights;
};

std::unique_ptr<Loaded> load(const std::string& path, DType kv) {
  auto out = std::make_unique<Loaded>();
  auto c = formats::open_checkpoint(*out->files, path);
  BORA_CHECK(c.ok(), c.status().message().c_str());
  out->checkpoint = *std::move(c);
  auto m = model::build_model(*out->checkpoint, {.kv_dtype = kv});
  BORA_CHECK(m.ok(), m.status().message().c_str());
  out->model = *std::move(m);
  out->weights = std::make_unique<CheckpointWeights>(out->checkpoint.get());
  return out;
}

std::vector<int32_t> random_ids(Rng* rng, int32_t n, int32_t vocab) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>(rng->below(static_cast<uint64_t>(vocab))));
  return out;
}

double cosine(std::span<const double> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * static_cast<double>(b[i]);
    aa += a[i] * a[i];
    bb += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return ab / std::sqrt(aa * bb);
}

const char* const kFixtures[] = {"llama-mha",       "llama-gqa-llama3-tied", "qwen3-dense",     "gemma3-text",
                                 "gguf-llama-f16",  "gguf-llama-q4_0",       "gguf-llama-q8_0", "gguf-qwen3-q4_0",
                                 "gguf-gemma3-f16", "gguf-wide-mixed",       "gguf-wide-q4_k_m"};

class CpuDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(fixture(GetParam()))) GTEST_SKIP() << "fixture " << GetParam() << " is absent";
  }
};

// 1,100 random tokens cross windows and tiles of 256 keys.
TEST_P(CpuDevice, LongSequencesFollowTheInterpreter) {
  const bool full = std::getenv("BORA_TEST_FULL") != nullptr;
  auto exact = load(fixture(GetParam()), DType::kF64);
  auto loaded = load(fixture(GetParam()), DType::kF32);
  const bool quantized = std::string(GetParam()).find("q4") != std::string::npos ||
                         std::string(GetParam()).find("q8") != std::string::npos ||
                         std::string(GetParam()).find("mixed") != std::string::npos;
  Rng rng(77);
  const std::vector<int32_t> ids = random_ids(&rng, full ? 1100 : 300, loaded->model.info.vocab);
  auto reference = model::ReferenceRun::create(*exact->checkpoint, exact->model, static_cast<int32_t>(ids.size()));
  ASSERT_TRUE((*reference)->feed(ids, static_cast<int32_t>(ids.size())).ok());
  const std::span<const double> want = *(*reference)->logits();
  auto device = open_device("cpu", {2, ""});
  ASSERT_TRUE(device.ok()) << device.status().message();
  auto run = Sequence::create(**device, loaded->model, loaded->weights.get(), static_cast<int32_t>(ids.size()),
                              static_cast<int32_t>(ids.size()));
  ASSERT_TRUE(run.ok()) << run.status().message();
  ASSERT_TRUE((*run)->feed(ids, static_cast<int32_t>(ids.size())).ok());
  const std::span<const float> got = (*run)->logits();
  const size_t vocab = static_cast<size_t>(loaded->model.info.vocab);
  double most = 0, least = 1;
  for (size_t i = 0; i < got.size(); ++i) most = std::max(most, std::abs(want[i] - static_cast<double>(got[i])));
  for (size_t r = 0; r < ids.size(); ++r)
    least = std::min(least, cosine(want.subspan(r * vocab, vocab), got.subspan(r * vocab, vocab)));
  std::printf("%-22s %zu tokens: largest difference %.2e, least cosine %.5f\n", GetParam(), ids.size(), most, least);
  // Weights in floats: float32 sums. Quantized weights meet activations of 8 bits.
  if (quantized) {
    EXPECT_GE(least, 0.98);
  } else {
    EXPECT_LE(most, 5e-4);
  }
}

TEST_P(CpuDevice, ARowsBitsDependOnNothingElse) {
  auto loaded = load(fixture(GetParam()), DType::kBF16);
  Rng rng(5);
  const int32_t vocab = loaded->model.info.vocab;
  const std::vector<int32_t> prompt = random_ids(&rng, 53, vocab), answer = random_ids(&rng, 12, vocab);
  std::vector<std::vector<float>> want;
  for (int32_t threads : {1, 2}) {
    for (const cpu::IsaLevel* level : cpu::isa_levels()) {
      if (!level->present()) {
        std::printf("level %s is not on this machine: not tested\n", std::string(level->name).c_str());
        continue;
      }
      auto device = open_device("cpu", {threads, std::string(level->name)});
      ASSERT_TRUE(device.ok());
      for (int32_t chunk : {53, 16, 32}) {
        Batch alone(**device, loaded->model, loaded->weights.get(), 1, 96, 64);
        std::vector<std::vector<float>> got;
        for (size_t at = 0; at < prompt.size(); at += static_cast<size_t>(chunk)) {
          const size_t n = std::min<size_t>(static_cast<size_t>(chunk), prompt.size() - at);
          const auto logits = alone.step(
              {{0, {prompt.begin() + static_cast<ptrdiff_t>(at), prompt.begin() + static_cast<ptrdiff_t>(at + n)}}});
          if (at + n == prompt.size()) got.push_back(logits[0]);
        }
        for (int32_t id : answer) got.push_back(alone.step({{0, {id}}})[0]);
        if (want.empty()) want = got;
        ASSERT_EQ(got, want) << level->name << " threads " << threads << " chunk " << chunk;
      }
    }
  }
  // Among others that come and go, at any place in the step.
  auto device = open_device("cpu", {2, ""});
  for (int32_t others : {1, 2, 6, 15}) {
    Batch batch(**device, loaded->model, loaded->weights.get(), others + 1, 96, 400);
    std::vector<Batch::Part> parts;
    for (int32_t o = 1; o <= others; ++o)
      parts.push_back({o, random_ids(&rng, static_cast<int32_t>(rng.between(1, 20)), vocab)});
    const size_t place = rng.below(static_cast<uint64_t>(others) + 1);
    parts.insert(parts.begin() + static_cast<ptrdiff_t>(place), {0, prompt});
    std::vector<std::vector<float>> got{batch.step(parts)[place]};
    for (int32_t id : answer) {
      parts.clear();
      for (int32_t o = 1; o <= others; ++o) {
        if (rng.chance(0.2)) batch.forget(o);
        if (rng.chance(0.7)) parts.push_back({o, random_ids(&rng, static_cast<int32_t>(rng.between(1, 4)), vocab)});
      }
      const size_t at = rng.below(parts.size() + 1);
      parts.insert(parts.begin() + static_cast<ptrdiff_t>(at), {0, {id}});
      got.push_back(batch.step(parts)[at]);
    }
    ASSERT_EQ(got, want) << "among " << others << " others";
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CpuDevice, testing::ValuesIn(kFixtures), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Backends, UnknownAndMissingAreSaidInWords) {
  EXPECT_EQ(open_device("tpu", {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(open_device("cpu", {0, "sse2"}).status().code(), Code::kInvalidArgument);
  std::string missing;
  for (const device::Backend* b : backends()) EXPECT_TRUE(b->open({}, &missing).ok()) << b->name;
}

}  // namespace
}  // namespace bora::app
