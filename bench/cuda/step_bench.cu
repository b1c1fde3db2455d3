// Whole decode steps on a device: correctness gates and times. One JSON object a line on stdout.
//
//   step_bench gate                                     logits of small models against float64, with a mutant
//   step_bench equal MODEL RECIPE                       a sequence alone and among 63 others, bit by bit
//   step_bench step MODEL RECIPE SEQUENCES CONTEXT [sampled]
//   step_bench parts MODEL RECIPE SEQUENCES CONTEXT     the same with parts left out, and without dependent launch
//   step_bench all                                      every measure of docs/benchmarks/cuda-steps.md
//   several commands may be joined by `+`; weights of the same model and recipe are kept from one to the next
#include <cstring>

#include "step_reference.cuh"

namespace bora::cuda::bench {
namespace {

constexpr int32_t kSteps = 127, kWarmUp = 5, kRepeat = 5;

__global__ void read_stream(const uint4* in, uint64_t vectors, uint32_t* out) {
  uint32_t sum = 0;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i + 7 * stride < vectors; i += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) v[u] = __ldcs(in + i + u * stride);
#pragma unroll
    for (int u = 0; u < 8; ++u) sum ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  if (sum == 0x12345678u) *out = sum;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

class Timer {
 public:
  Timer() {
    MUST(cudaEventCreate(&a_));
    MUST(cudaEventCreate(&b_));
  }
  ~Timer() { cudaEventDestroy(a_), cudaEventDestroy(b_); }
  template <typename F>
  double us(cudaStream_t stream, const F& f) {
    MUST(cudaEventRecord(a_, stream));
    f();
    MUST(cudaEventRecord(b_, stream));
    MUST(cudaEventSynchronize(b_));
    float ms = 0;
    MUST(cudaEventElapsedTime(&ms, a_, b_));
    return ms * 1e3;
  }

 private:
  cudaEvent_t a_, b_;
};

double measure_stream() {
  const int64_t bytes = int64_t{4} << 30;
  const Memory memory(bytes);
  Timer timer;
  double best = 0;
  for (const int blocks : {264, 528, 1056}) {
    std::vector<double> us;
    for (int i = 0; i < 7; ++i) {
      us.push_back(timer.us(nullptr, [&] {
        read_stream<<<blocks, 256>>>(memory.get<uint4>(), static_cast<uint64_t>(bytes) / 16, memory.get<uint32_t>());
      }));
    }
    best = std::max(best, static_cast<double>(bytes) / median(us) * 1e-6);
  }
  std::printf("{\"what\":\"stream\",\"bytes\":%lld,\"tbs\":%.3f}\n", static_cast<long long>(bytes), best);
  return best;
}

struct Target {
  const char *model, *recipe;
  int32_t sequences, context;
  double must_us, stretch_us;
};
constexpr Target kTargets[] = {
    {"1b", "bf16", 1, 64, 720, 640},     {"1b", "bf16", 1, 2048, 0, 0},       {"1b", "bf16", 16, 128, 0, 0},
    {"1b", "bf16", 64, 128, 0, 0},       {"8b", "bf16", 1, 64, 3650, 3450},   {"8b", "bf16", 1, 2048, 0, 0},
    {"8b", "bf16", 16, 128, 3900, 3700}, {"8b", "bf16", 64, 128, 4600, 4200}, {"8b", "fp8", 1, 64, 2300, 2050},
    {"8b", "fp8", 1, 2048, 0, 0},        {"8b", "fp8", 16, 128, 2500, 2200},  {"8b", "fp8", 64, 128, 3200, 2800},
    {"8b", "int4", 1, 64, 1350, 1150},   {"8b", "int4", 1, 2048, 0, 0},       {"8b", "int4", 16, 128, 1650, 1400},
    {"8b", "int4", 64, 128, 2900, 2300}, {"7b", "bf16", 1, 64, 0, 0},         {"7b", "fp8", 1, 64, 0, 0},
    {"7b", "int4", 1, 64, 0, 0},
};

class Program {
 public:
  int run(const std::vector<std::string>& arguments) {
    Result<DeviceInfo> info = query_device(0);
    if (!info.ok()) {
      std::printf("step bench: skipped, %s\n", info.status().to_string().c_str());
      return 77;
    }
    device_ = *info;
    for (size_t at = 0; at < arguments.size();) {
      size_t end = at;
      while (end < arguments.size() && arguments[end] != "+") ++end;
      if (!command({arguments.begin() + static_cast<int64_t>(at), arguments.begin() + static_cast<int64_t>(end)}))
        return 2;
      at = end + 1;
    }
    return failures_ == 0 ? 0 : 1;
  }

 private:
  bool command(const std::vector<std::string>& c) {
    if (c.empty()) return false;
    if (c[0] == "gate") return gate(), true;
    if (stream_tbs_ == 0 && c[0] != "equal") stream_tbs_ = measure_stream();
    if (c[0] == "all") {
      gate();
      for (const Target& t : kTargets) {
        load(t.model, t.recipe);
        time(t.sequences, t.context, {});
      }
      return true;
    }
    if (c.size() < 3 || !load(c[1], c[2])) return false;
    if (c[0] == "equal") return equal(), true;
    if (c.size() < 5) return false;
    const int32_t sequences = std::atoi(c[3].c_str()), context = std::atoi(c[4].c_str());
    if (c[0] == "step") {
      StepOptions options;
      options.sampled = c.size() > 5 && c[5] == "sampled";
      time(sequences, context, options);
      return true;
    }
    if (c[0] != "parts") return false;
    parts(sequences, context);
    return true;
  }

  bool load(const std::string& model, const std::string& recipe) {
    if (model_ != nullptr && model == model_->shape.name && recipe == model_->recipe->name) return true;
    model_.reset();
    for (const ModelShape& s : kModels) {
      for (const Recipe& r : kRecipes) {
        if (model == s.name && recipe == r.name) model_ = std::make_unique<Model>(s, r, 4096);
      }
    }
    if (model_ == nullptr) std::fprintf(stderr, "no model %s %s\n", model.c_str(), recipe.c_str());
    return model_ != nullptr;
  }

  // us a step over kSteps steps, each reading what the one before chose.
  double time_steps(const Batch& batch_in, Batch& batch) {
    const StepGraph graph(batch_in);
    Timer timer;
    std::vector<double> us;
    for (int32_t repeat = 0; repeat < kRepeat; ++repeat) {
      batch.reset();
      for (int32_t i = 0; i < kWarmUp; ++i) graph.launch(batch.stream);
      us.push_back(timer.us(batch.stream, [&] {
        for (int32_t i = 0; i < kSteps; ++i) graph.launch(batch.stream);
      }) / kSteps);
    }
    MUST(cudaDeviceSynchronize());
    return median(us);
  }

  void time(int32_t sequences, int32_t context, const StepOptions& options) {
    std::vector<int32_t> names;
    for (int32_t i = 0; i < sequences; ++i) names.push_back(i);
    Batch batch(*model_, device_, names, context, kWarmUp + kSteps + 3, options);
    const double us = time_steps(batch, batch);
    int64_t bad = 0;
    for (const uint16_t x : batch.logits.host<uint16_t>()) bad += (x & 0x7F80) == 0x7F80;
    for (const int32_t id : batch.ids.host<int32_t>()) bad += id < 0 || id >= model_->shape.vocab;
    failures_ += bad != 0;
    const double bytes = batch.bytes(context + kWarmUp + kSteps / 2.0), tbs = bytes / us * 1e-6;
    double must_us = 0, stretch_us = 0;
    for (const Target& t : kTargets) {
      if (std::strcmp(t.model, model_->shape.name) == 0 && std::strcmp(t.recipe, model_->recipe->name) == 0 &&
          t.sequences == sequences && t.context == context)
        must_us = t.must_us, stretch_us = t.stretch_us;
    }
    std::printf(
        "{\"what\":\"step\",\"model\":\"%s\",\"recipe\":\"%s\",\"sequences\":%d,\"context\":%d,\"choice\":\"%s\","
        "\"us\":%.1f,"
        "\"bytes\":%.0f,\"tbs\":%.3f,\"share\":%.3f,\"must_us\":%.0f,\"stretch_us\":%.0f,\"not_finite\":%lld}\n",
        model_->shape.name, model_->recipe->name, sequences, context, options.sampled ? "sampled" : "greedy", us,
        bytes, tbs, tbs / stream_tbs_, must_us, stretch_us, static_cast<long long>(bad));
    std::fflush(stdout);
  }

  void parts(int32_t sequences, int32_t context) {
    struct Case {
      const char* name;
      uint32_t without;
      bool dependent;
    };
    const Case cases[] = {{"whole", 0, true},
                          {"no dependent launch", 0, false},
                          {"without norms", kNorms, true},
                          {"without rope", kRope, true},
                          {"without attention", kAttention, true},
                          {"without rope, attention", kRope | kAttention, true},
                          {"without norms, rope, attention", kNorms | kRope | kAttention, true},
                          {"linears only, head too", kNorms | kRope | kAttention | kChoice | kStart, true},
                          {"linears only", kNorms | kRope | kAttention | kChoice | kStart | kHead, true},
                          {"linears left out", kLinears | kHead, true}};
    std::vector<int32_t> names;
    for (int32_t i = 0; i < sequences; ++i) names.push_back(i);
    for (const Case& c : cases) {
      StepOptions options;
      options.dependent = c.dependent, options.without = c.without;
      Batch batch(*model_, device_, names, context, kWarmUp + kSteps + 3, options);
      std::printf(
          "{\"what\":\"parts\",\"model\":\"%s\",\"recipe\":\"%s\",\"sequences\":%d,\"context\":%d,\"case\":\"%s\","
          "\"us\":%.1f}\n",
          model_->shape.name, model_->recipe->name, sequences, context, c.name, time_steps(batch, batch));
      std::fflush(stdout);
    }
  }

  static double distance(const std::vector<uint16_t>& got, const Row& want) {
    double diff = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double x = of_bf16(got[i]);
      diff += (x - want[i]) * (x - want[i]), size += want[i] * want[i];
    }
    return std::sqrt(diff / size);
  }

  // Eight steps across position 256, the device's own tokens into both.
  void gate() {
    for (const char* name : {"tiny", "tiny128"}) {
      for (const Recipe& r : kRecipes) {
        load(name, r.name);
        Batch batch(*model_, device_, {5}, 252, 16, {});
        Reference right(batch, false), mutant(batch, true);
        const StepGraph graph(batch);
        double worst = 0, seen = 0;
        int wrong_tokens = 0;
        for (int32_t i = 0; i < 8; ++i) {
          const int32_t token = batch.ids.host<int32_t>()[0];
          graph.launch(batch.stream);
          MUST(cudaDeviceSynchronize());
          const std::vector<uint16_t> logits = batch.logits.host<uint16_t>();
          const Row want = right.step(token, batch.context - 1 + i);
          worst = std::max(worst, distance(logits, want));
          seen = std::max(seen, distance(logits, mutant.step(token, batch.context - 1 + i)));
          int32_t best = 0;
          for (int32_t t = 1; t < model_->shape.vocab; ++t) {
            if (of_bf16(logits[static_cast<size_t>(t)]) > of_bf16(logits[static_cast<size_t>(best)])) best = t;
          }
          wrong_tokens += batch.ids.host<int32_t>()[0] != best;
        }
        const bool ok = worst < 0.02 && seen > 0.1 && wrong_tokens == 0;
        failures_ += !ok;
        std::printf(
            "{\"what\":\"gate\",\"model\":\"%s\",\"recipe\":\"%s\",\"steps\":8,\"error\":%.5f,\"mutant_error\":%.5f,"
            "\"wrong_tokens\":%d,\"ok\":%s}\n",
            name, r.name, worst, seen, wrong_tokens, ok ? "true" : "false");
        std::fflush(stdout);
      }
    }
  }

  // Logits and tokens of eight steps of one sequence, alone and as row 17 among 63 others.
  void equal() {
    std::vector<int32_t> names;
    for (int32_t i = 0; i < 64; ++i) names.push_back(i);
    int64_t different = 0;
    for (const int32_t context : {64, 250}) {
      Batch alone(*model_, device_, {17}, context, 16, {}), among(*model_, device_, names, context, 16, {});
      const StepGraph one(alone), all(among);
      for (int32_t i = 0; i < 8; ++i) {
        one.launch(alone.stream), all.launch(among.stream);
        MUST(cudaDeviceSynchronize());
        const std::vector<uint16_t> a = alone.logits.host<uint16_t>(), b = among.logits.host<uint16_t>();
        for (size_t t = 0; t < static_cast<size_t>(model_->shape.vocab); ++t)
          different += a[t] != b[static_cast<size_t>(17) * model_->shape.vocab + t];
        different += alone.ids.host<int32_t>()[0] != among.ids.host<int32_t>()[17];
      }
    }
    failures_ += different != 0;
    std::printf(
        "{\"what\":\"equal\",\"model\":\"%s\",\"recipe\":\"%s\",\"rows\":64,\"steps\":16,\"different\":%lld}\n",
        model_->shape.name, model_->recipe->name, static_cast<long long>(different));
    std::fflush(stdout);
  }

  DeviceInfo device_;
  std::unique_ptr<Model> model_;
  double stream_tbs_ = 0;
  int failures_ = 0;
};

}  // namespace
}  // namespace bora::cuda::bench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    std::fprintf(stderr, "step_bench gate | equal | step | parts | all: see the head of bench/cuda/step_bench.cu\n");
    return 2;
  }
  return bora::cuda::bench::Program().run(arguments);
}
