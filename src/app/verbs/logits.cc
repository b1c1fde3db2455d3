// logits: raw logits, greedy continuations and hidden states of given ids.
#include <algorithm>
#include <memory>

#include "app/backends.h"
#include "app/loader.h"
#include "app/sequence.h"
#include "app/verb.h"
#include "model/run.h"

namespace bora::app {
namespace {

constexpr Flag kFlags[] = {
    {"MODEL", Flag::Kind::kPositional, "a .gguf or .safetensors file, or a directory"},
    {"--device", Flag::Kind::kText, "auto, cpu, or reference (float64, slow)", "auto"},
    {"--isa", Flag::Kind::kText, "force an instruction-set level of the CPU"},
    {"--threads", Flag::Kind::kInt, "worker threads; 0 = all cores", "0"},
    {"--chunk", Flag::Kind::kInt, "feed so many tokens at a time (a multiple of 16); 0 = all", "0"},
    {"--kv-dtype", Flag::Kind::kText, "f32, f16 or bf16", "f32"}};

struct LogitsState {
  std::unique_ptr<Source> source;
  model::Model model;
  std::unique_ptr<CheckpointWeights> weights;
  std::unique_ptr<device::Device> device;  // null: the interpreter
  int64_t chunk = 0;
};

// A sequence on a device or in the interpreter.
class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(LogitsState& s, int32_t positions, int32_t tokens) {
    auto out = std::make_unique<Runner>();
    out->vocab_ = static_cast<size_t>(s.model.info.vocab);
    if (s.device == nullptr) {
      BORA_ASSIGN(out->reference_, model::ReferenceRun::create(*s.source->checkpoint, s.model, positions));
    } else {
      BORA_ASSIGN(out->sequence_, Sequence::create(*s.device, s.model, s.weights.get(), positions, tokens));
    }
    return out;
  }
  Status feed(std::span<const int32_t> ids, int32_t rows) {
    return reference_ ? reference_->feed(ids, rows) : sequence_->feed(ids, rows);
  }
  std::vector<float> output(std::string_view name) const {
    if (reference_) {
      auto r = reference_->output(name);
      return r.ok() ? std::vector<float>(r->begin(), r->end()) : std::vector<float>();
    }
    const std::span<const float> t = sequence_->tap(name);
    return {t.begin(), t.end()};
  }

 private:
  std::unique_ptr<model::ReferenceRun> reference_;
  std::unique_ptr<Sequence> sequence_;
  size_t vocab_ = 0;
};

Json numbers(std::span<const float> values) {
  Json list = Json::array();
  for (float v : values) list.push_back(static_cast<double>(v));
  return list;
}

Json hidden_of(const Runner& run, const model::ModelInfo& info) {
  const size_t n = static_cast<size_t>(info.hidden);
  const auto last = [&](std::string_view name) {
    const std::vector<float> all = run.output(name);
    return all.size() < n ? Json::array() : numbers(std::span(all).last(n));
  };
  Json out = Json::object(), layers = Json::array();
  for (int32_t l = 0; l < info.layers; ++l) layers.push_back(last("hidden.layers." + std::to_string(l)));
  out.set("embed", last("hidden.embed"));
  out.set("layers", std::move(layers));
  out.set("final_norm", last("hidden.final_norm"));
  return out;
}

Result<int32_t> small_number(const Json& line, std::string_view key, int32_t fallback, int32_t most) {
  const Json* v = line.find(key);
  if (v == nullptr) return fallback;
  if (!v->is_int() || v->as_int() < 0 || v->as_int() > most) {
    return invalid_argument("'" + std::string(key) + "' must be 0 to " + std::to_string(most));
  }
  return static_cast<int32_t>(v->as_int());
}

Result<Json> run_line(const Json& line, void* state, Json*) {
  LogitsState& s = *static_cast<LogitsState*>(state);
  BORA_ASSIGN(const std::vector<int32_t> ids, read_ids(line, "ids"));
  if (ids.empty() || ids.size() > 65536) return invalid_argument("'ids' must hold 1 to 65536 token ids");
  for (int32_t id : ids) {
    if (id >= s.model.info.vocab)
      return out_of_range("token id " + std::to_string(id) + " is outside the vocabulary");
  }
  const int32_t count = static_cast<int32_t>(ids.size());
  BORA_ASSIGN(const int32_t wanted, small_number(line, "last", 1, count));
  BORA_ASSIGN(const int32_t more, small_number(line, "continue", 0, 4096));
  const int32_t chunk = s.chunk > 0 ? static_cast<int32_t>(std::min<int64_t>(s.chunk, count)) : count;
  BORA_ASSIGN(std::unique_ptr<Runner> run, Runner::create(s, count + more, chunk));
  std::vector<float> logits;
  const size_t vocab = static_cast<size_t>(s.model.info.vocab);
  for (int32_t at = 0; at < count; at += chunk) {
    const int32_t n = std::min(chunk, count - at);
    // Rows of this chunk that are among the last `wanted`, and always the last one of all.
    const int32_t rows = std::clamp(at + n - (count - std::max(wanted, 1)), 0, n);
    BORA_TRY(run->feed(std::span(ids).subspan(static_cast<size_t>(at), static_cast<size_t>(n)), rows));
    const std::vector<float> part = run->output("logits");
    logits.insert(logits.end(), part.begin(), part.end());
  }
  Json out = Json::object(), rows = Json::array(), greedy = Json::array();
  for (int32_t r = 0; r < wanted; ++r)
    rows.push_back(numbers(std::span(logits).subspan(static_cast<size_t>(r) * vocab, vocab)));
  const Json* hidden = line.find("hidden");
  if (hidden != nullptr && hidden->is_bool() && hidden->as_bool()) out.set("hidden", hidden_of(*run, s.model.info));
  std::vector<float> last(logits.end() - static_cast<ptrdiff_t>(vocab), logits.end());
  for (int32_t i = 0; i < more; ++i) {
    const int32_t id = static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
    greedy.push_back(id);
    if (i + 1 == more) break;
    BORA_TRY(run->feed(std::span(&id, 1), 1));
    last = run->output("logits");
  }
  out.set("logits", std::move(rows));
  out.set("greedy", std::move(greedy));
  return out;
}

Result<DType> kv_dtype(const std::string& name, bool reference) {
  if (name == "f32") return reference ? DType::kF64 : DType::kF32;
  if (name == "f16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return invalid_argument("--kv-dtype must be f32, f16 or bf16");
}

Status logits(const Args& args, Streams& io) {
  LogitsState state;
  const bool reference = args.text("--device") == "reference";
  state.chunk = args.integer("--chunk");
  if (state.chunk < 0 || state.chunk % 16 != 0) return invalid_argument("--chunk must be a multiple of 16");
  BORA_ASSIGN(const DType kv, kv_dtype(args.text("--kv-dtype"), reference));
  if (!reference) {
    BORA_ASSIGN(state.device, open_device(args.text("--device"),
                                          {static_cast<int32_t>(args.integer("--threads")), args.text("--isa")}));
  }
  BORA_ASSIGN(state.source, open_source(args.text("MODEL")));
  BORA_ASSIGN(state.model, model::build_model(*state.source->checkpoint, {.kv_dtype = kv, .hidden_outputs = true}));
  state.weights = std::make_unique<CheckpointWeights>(state.source->checkpoint.get());
  return each_line(io, run_line, &state);
}

}  // namespace

extern const Verb kLogits;
const Verb kLogits{
    .name = "logits",
    .summary = "Raw logits and greedy tokens of given ids, a JSON object a line",
    .flags = kFlags,
    .examples =
        "  echo '{\"ids\": [1, 2, 3], \"last\": 1, \"continue\": 8}' | bora logits model.gguf --device reference",
    .run = logits};

}  // namespace bora::app
