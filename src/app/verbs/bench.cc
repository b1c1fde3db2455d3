// bench: prefill and decode speed of one sequence on a device.
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <ostream>
#include <thread>

#include "app/backends.h"
#include "app/loader.h"
#include "app/sequence.h"
#include "app/verb.h"

namespace bora::app {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr int32_t kChunk = 256;  // rows of a prefill step

Status prefill(Sequence& run, std::span<const int32_t> ids) {
  for (size_t at = 0; at < ids.size(); at += kChunk) {
    const size_t n = std::min<size_t>(kChunk, ids.size() - at);
    BORA_TRY(run.feed(ids.subspan(at, n), at + n == ids.size() ? 1 : 0));
  }
  return {};
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

constexpr Flag kBenchFlags[] = {{"MODEL", Flag::Kind::kPositional, "a .gguf or .safetensors file, or a directory"},
                                {"--pp", Flag::Kind::kInt, "prompt tokens", "512"},
                                {"--tg", Flag::Kind::kInt, "generated tokens", "128"},
                                {"--depth", Flag::Kind::kInt, "positions filled before", "0"},
                                {"--reps", Flag::Kind::kInt, "repetitions; the median counts", "5"},
                                {"--threads", Flag::Kind::kInt, "worker threads; 0 = all cores", "0"},
                                {"--isa", Flag::Kind::kText, "force an instruction-set level of the CPU"},
                                {"--device", Flag::Kind::kText, "auto, cpu or null", "auto"},
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

extern const Verb kBench;
const Verb kBench{.name = "bench",
                  .summary = "Prefill and decode speed, and the share of the memory's bandwidth",
                  .flags = kBenchFlags,
                  .examples = "  bora bench model.gguf --pp 512 --tg 128 --threads 2 --json",
                  .run = bench};

}  // namespace bora::app
