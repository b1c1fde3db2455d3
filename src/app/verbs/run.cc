// run: one answer of a model, streamed to stdout. bench: prefill and decode speed.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <ostream>
#include <thread>

#include "app/backends.h"
#include "app/loader.h"
#include "app/sequence.h"
#include "app/verb.h"
#include "engine/model_text.h"
#include "sample/sampler.h"

namespace bora::app {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr int32_t kChunk = 256;  // rows of a prefill step

constexpr Flag kRunFlags[] = {{"MODEL", Flag::Kind::kPositional, "a .gguf or .safetensors file, or a directory"},
                              {"-p,--prompt", Flag::Kind::kText, "the user's message"},
                              {"-n,--max-tokens", Flag::Kind::kInt, "tokens of the answer at most", "256"},
                              {"--temperature", Flag::Kind::kReal, "0 = greedy", "0"},
                              {"--top-k", Flag::Kind::kInt, "0 = all", "0"},
                              {"--top-p", Flag::Kind::kReal, "probability mass that is kept", "1"},
                              {"--min-p", Flag::Kind::kReal, "least likelihood beside the likeliest token", "0"},
                              {"--seed", Flag::Kind::kInt, "of the sampling noise", "0"},
                              {"--raw", Flag::Kind::kSwitch, "the prompt as it is, without the chat template"},
                              {"--threads", Flag::Kind::kInt, "worker threads; 0 = all cores", "0"},
                              {"--isa", Flag::Kind::kText, "force an instruction-set level of the CPU"},
                              {"--device", Flag::Kind::kText, "auto or cpu", "auto"},
                              {"--json", Flag::Kind::kSwitch, "one JSON object instead of text and figures"}};

// The prompt's ids: rendered by the model's template, control tokens recognised only where the template wrote them.
Result<std::vector<int32_t>> prompt_ids(const Args& args, const formats::Checkpoint& c, const text::Tokenizer& t) {
  std::vector<int32_t> ids;
  const std::string& prompt = args.text("-p,--prompt");
  if (prompt.empty()) return invalid_argument("give the message with -p TEXT");
  if (args.has("--raw")) {
    t.encode(prompt, {.add_special = true, .parse_special = false}, &ids);
    return ids;
  }
  auto source = engine::load_template(c);
  if (!source.ok()) return std::move(source).take_status().with_context("use --raw");
  BORA_ASSIGN(const auto parsed, text::parse_template(*source, {}));
  const text::SpecialIds special = t.special_ids();
  Json message = Json::object(), context = Json::object(), messages = Json::array();
  message.set("role", "user");
  message.set("content", prompt);
  messages.push_back(std::move(message));
  context.set("messages", std::move(messages));
  context.set("add_generation_prompt", true);
  context.set("bos_token", special.bos >= 0 ? std::string(t.token_text(special.bos)) : std::string());
  context.set("eos_token", special.eos >= 0 ? std::string(t.token_text(special.eos)) : std::string());
  text::RenderOptions options;
  options.mode = text::RenderOptions::Mode::kLenient;
  text::Rendered rendered;
  text::RenderError error;
  if (!parsed->render(context, options, &rendered, &error))
    return std::move(error.status).with_context("chat template");
  t.encode_spans(rendered.prompt, true, &ids);
  return ids;
}

Result<sample::Params> sampling_of(const Args& args) {
  sample::Params p;
  p.temperature = args.real("--temperature");
  p.top_k = static_cast<int32_t>(std::clamp<int64_t>(args.integer("--top-k"), -1, 1 << 30));
  p.top_p = args.real("--top-p");
  p.min_p = args.real("--min-p");
  p.seed = static_cast<uint64_t>(args.integer("--seed"));
  BORA_TRY(sample::check(p));
  return p;
}

struct Generation {
  std::string text;
  std::vector<int32_t> ids;
  bool stopped = false;
  double prefill_seconds = 0, decode_seconds = 0;
};

Status prefill(Sequence& run, std::span<const int32_t> ids) {
  for (size_t at = 0; at < ids.size(); at += kChunk) {
    const size_t n = std::min<size_t>(kChunk, ids.size() - at);
    BORA_TRY(run.feed(ids.subspan(at, n), at + n == ids.size() ? 1 : 0));
  }
  return {};
}

Result<Generation> generate(Sequence& run, const text::Tokenizer& t, const model::ModelInfo& info,
                            std::span<const int32_t> prompt, const sample::Params& params, int32_t most,
                            std::ostream* stream) {
  Generation g;
  const double begin = now();
  BORA_TRY(prefill(run, prompt));
  const double ready = now();
  auto decoder = t.stream({.skip_special = true}, prompt);
  std::string piece;
  const auto emit = [&] {
    if (stream != nullptr) *stream << piece << std::flush;
    g.text += piece;
    piece.clear();
  };
  while (static_cast<int32_t>(g.ids.size()) < most) {
    const sample::Picked p = sample::pick(run.logits(), params, run.length());
    if (p.id < 0) return internal_error("the model gave no number for any token");
    if (std::find(info.eos.begin(), info.eos.end(), p.id) != info.eos.end()) {
      g.stopped = true;
      break;
    }
    g.ids.push_back(p.id);
    decoder->push(p.id, &piece);
    emit();
    if (static_cast<int32_t>(g.ids.size()) < most) BORA_TRY(run.feed(std::span(&p.id, 1), 1));
  }
  decoder->finish(&piece);
  emit();
  g.prefill_seconds = ready - begin;
  g.decode_seconds = now() - ready;
  return g;
}

struct Ready {
  std::unique_ptr<Source> source;
  model::Model model;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<CheckpointWeights> weights;
};

Result<Ready> prepare(const Args& args) {
  Ready r;
  BORA_ASSIGN(r.device, open_device(args.text("--device"),
                                    {static_cast<int32_t>(args.integer("--threads")), args.text("--isa")}));
  BORA_ASSIGN(r.source, open_source(args.text("MODEL")));
  BORA_ASSIGN(r.model, model::build_model(*r.source->checkpoint, {}));
  r.weights = std::make_unique<CheckpointWeights>(r.source->checkpoint.get());
  return r;
}

Status run(const Args& args, Streams& io) {
  const double begin = now();
  BORA_ASSIGN(const sample::Params params, sampling_of(args));
  const int64_t most = args.integer("-n,--max-tokens");
  if (most < 1 || most > 1 << 20) return invalid_argument("-n must be 1 to 1048576");
  BORA_ASSIGN(Ready r, prepare(args));
  BORA_ASSIGN(const std::unique_ptr<text::Tokenizer> t, engine::load_tokenizer(*r.source->checkpoint));
  BORA_ASSIGN(const std::vector<int32_t> ids, prompt_ids(args, *r.source->checkpoint, *t));
  const int64_t positions = static_cast<int64_t>(ids.size()) + most;
  if (positions > r.model.info.max_context) {
    return invalid_argument("the prompt has " + std::to_string(ids.size()) + " tokens and the answer may have " +
                            std::to_string(most) + "; the context holds " + std::to_string(r.model.info.max_context));
  }
  BORA_ASSIGN(const std::unique_ptr<Sequence> sequence,
              Sequence::create(*r.device, r.model, r.weights.get(), static_cast<int32_t>(positions), kChunk));
  const double loaded = now();
  std::ostream* stream = args.has("--json") ? nullptr : &io.out;
  BORA_ASSIGN(const Generation g,
              generate(*sequence, *t, r.model.info, ids, params, static_cast<int32_t>(most), stream));
  const double rate = g.decode_seconds > 0 ? static_cast<double>(g.ids.size()) / g.decode_seconds : 0;
  if (args.has("--json")) {
    Json out = Json::object();
    out.set("text", g.text);
    out.set("finish_reason", g.stopped ? "stop" : "length");
    out.set("prompt_tokens", static_cast<int64_t>(ids.size()));
    out.set("completion_tokens", static_cast<int64_t>(g.ids.size()));
    out.set("load_seconds", loaded - begin);
    out.set("prefill_seconds", g.prefill_seconds);
    out.set("decode_tok_s", rate);
    io.out << out.dump() << '\n';
    return {};
  }
  io.out << '\n' << std::flush;
  char figures[200];
  std::snprintf(figures, sizeof figures,
                "%zu prompt tokens in %.3f s, %zu tokens at %.1f a second, loaded in %.3f s, %s\n", ids.size(),
                g.prefill_seconds, g.ids.size(), rate, loaded - begin, g.stopped ? "stop" : "length");
  io.err << figures;
  return {};
}

constexpr Flag kBenchFlags[] = {{"MODEL", Flag::Kind::kPositional, "a .gguf or .safetensors file, or a directory"},
                                {"--pp", Flag::Kind::kInt, "prompt tokens", "512"},
                                {"--tg", Flag::Kind::kInt, "generated tokens", "128"},
                                {"--depth", Flag::Kind::kInt, "positions filled before", "0"},
                                {"--reps", Flag::Kind::kInt, "repetitions; the median counts", "5"},
                                {"--threads", Flag::Kind::kInt, "worker threads; 0 = all cores", "0"},
                                {"--isa", Flag::Kind::kText, "force an instruction-set level of the CPU"},
                                {"--device", Flag::Kind::kText, "auto or cpu", "auto"},
                                {"--json", Flag::Kind::kSwitch, "as one JSON object"}};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Bytes a second of linear reads by `threads` at once over half a gigabyte, the best of three.
double read_bandwidth(int32_t threads) {
  const size_t words = size_t{64} << 20;
  std::vector<uint64_t> data(words, 1);
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<uint64_t> sums(static_cast<size_t>(threads));
    std::vector<std::thread> team;
    const double begin = now();
    for (int32_t w = 0; w < threads; ++w) {
      team.emplace_back([&, w] {
        const size_t share = words / static_cast<size_t>(threads), from = share * static_cast<size_t>(w);
        uint64_t s[8] = {};
        for (size_t i = from; i + 8 <= from + share; i += 8) {
          for (size_t k = 0; k < 8; ++k) s[k] += data[i + k];
        }
        sums[static_cast<size_t>(w)] = std::accumulate(s, s + 8, uint64_t{0});
      });
    }
    for (std::thread& th : team) th.join();
    const double seconds = now() - begin;
    if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) > 0)
      best = std::max(best, static_cast<double>(words * 8) / seconds);
  }
  return best;
}

Status bench(const Args& args, Streams& io) {
  const int64_t pp = args.integer("--pp"), tg = args.integer("--tg"), depth = args.integer("--depth"),
                reps = args.integer("--reps");
  if (pp < 1 || tg < 1 || depth < 0 || reps < 1 || pp + tg + depth > 1 << 20 || reps > 1000) {
    return invalid_argument("--pp, --tg and --reps must be positive, --depth not negative");
  }
  BORA_ASSIGN(Ready r, prepare(args));
  const int32_t vocab = r.model.info.vocab;
  const auto ids = [vocab](int64_t n) {
    std::vector<int32_t> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>((i * 7919 + 13) % vocab));
    return out;
  };
  const device::Bounds bounds = bounds_for(r.model.graph, static_cast<int32_t>(pp + tg + depth), kChunk, 1);
  BORA_ASSIGN(const device::MemoryPlan plan, r.device->plan(r.model.graph, r.model.bindings, bounds));
  std::vector<double> prompt_rate, decode_rate;
  for (int64_t i = 0; i < reps; ++i) {
    BORA_ASSIGN(const std::unique_ptr<Sequence> s,
                Sequence::create(*r.device, r.model, r.weights.get(), static_cast<int32_t>(pp + tg + depth), kChunk));
    const std::vector<int32_t> before = ids(depth), prompt = ids(pp), answer = ids(tg);
    if (depth > 0) BORA_TRY(prefill(*s, before));
    const double a = now();
    BORA_TRY(prefill(*s, prompt));
    const double b = now();
    for (const int32_t& id : answer) BORA_TRY(s->feed(std::span(&id, 1), 1));
    const double c = now();
    prompt_rate.push_back(static_cast<double>(pp) / (b - a));
    decode_rate.push_back(static_cast<double>(tg) / (c - b));
  }
  int64_t threads = args.integer("--threads");
  if (threads < 1) threads = std::max(1u, std::thread::hardware_concurrency());
  const double stream = read_bandwidth(static_cast<int32_t>(std::min<int64_t>(threads, 64)));
  const double read = static_cast<double>(plan.weights) * median(decode_rate);
  Json out = Json::object();
  out.set("device", r.device->description());
  out.set("pp_tok_s", median(prompt_rate));
  out.set("tg_tok_s", median(decode_rate));
  out.set("bytes_per_token", static_cast<int64_t>(plan.weights));
  out.set("read_gb_s", read / 1e9);
  out.set("stream_gb_s", stream / 1e9);
  out.set("share", read / stream);
  if (args.has("--json")) {
    io.out << out.dump() << '\n';
  } else {
    for (const Json::Member& m : out.members())
      io.out << m.first << ' ' << (m.second.is_string() ? m.second.as_string() : m.second.dump()) << '\n';
  }
  return {};
}

}  // namespace

extern const Verb kRun;
const Verb kRun{
    .name = "run",
    .summary = "One answer of a model to stdout, figures to stderr",
    .flags = kRunFlags,
    .examples =
        "  bora run model.gguf -p 'What is the capital of France?'\n  bora run model.gguf -p 'Once' --raw -n 50 "
        "--temperature 0.8 --seed 7",
    .run = run};
extern const Verb kBench;
const Verb kBench{.name = "bench",
                  .summary = "Prefill and decode speed, and the share of the memory's bandwidth",
                  .flags = kBenchFlags,
                  .examples = "  bora bench model.gguf --pp 512 --tg 128 --threads 2 --json",
                  .run = bench};

}  // namespace bora::app
