// run: one answer of a model, streamed to stdout.
#include <cstdio>
#include <ostream>

#include "app/local.h"
#include "app/verb.h"

namespace bora::app {
namespace {

constexpr Flag kOwnFlags[] = {{"MODEL", Flag::Kind::kPositional, "a .gguf or .safetensors file, or a directory"},
                              {"-p,--prompt", Flag::Kind::kText, "the user's message"},
                              {"-n,--max-tokens", Flag::Kind::kInt, "tokens of the answer at most", "256"},
                              {"--temperature", Flag::Kind::kReal, "0 = greedy", "0"},
                              {"--raw", Flag::Kind::kSwitch, "the prompt as it is, without the chat template"},
                              {"--json", Flag::Kind::kSwitch, "one JSON object instead of text and figures"}};
constexpr auto kFlags = join(join(kOwnFlags, kSamplingFlags), kDeviceFlags);

// The prompt's ids: rendered by the model's template, control tokens recognised only where the template wrote them.
Result<std::vector<int32_t>> prompt_ids(const Args& args, const engine::ModelText& text) {
  const std::string& prompt = args.text("-p,--prompt");
  if (prompt.empty()) return invalid_argument("give the message with -p TEXT");
  if (args.has("--raw")) {
    std::vector<int32_t> ids;
    text.tokenizer->encode(prompt, {.add_special = true, .parse_special = false}, &ids);
    return ids;
  }
  Json message = Json::object(), messages = Json::array();
  message.set("role", "user");
  message.set("content", prompt);
  messages.push_back(std::move(message));
  auto ids = chat_ids(text, messages);
  if (!ids.ok() && ids.status().code() == Code::kNotFound)
    return std::move(ids).take_status().with_context("use --raw");
  return ids;
}

void report(const Args& args, Streams& io, const LocalAnswer& a, double loaded) {
  const char* reason = a.finish == engine::Finish::kStop ? "stop" : "length";
  const double rate = a.rest_seconds > 0 ? (a.usage.completion_tokens - 1) / a.rest_seconds : 0;
  if (args.has("--json")) {
    Json out = Json::object();
    out.set("text", a.text);
    out.set("finish_reason", reason);
    out.set("prompt_tokens", a.usage.prompt_tokens);
    out.set("completion_tokens", a.usage.completion_tokens);
    out.set("load_seconds", loaded);
    out.set("prefill_seconds", a.first_seconds);
    out.set("decode_tok_s", rate);
    io.out << out.dump() << '\n';
    return;
  }
  io.out << '\n' << std::flush;
  char figures[200];
  std::snprintf(figures, sizeof figures,
                "%d prompt tokens in %.3f s, %d tokens at %.1f a second, loaded in %.3f s, %s\n",
                a.usage.prompt_tokens, a.first_seconds, a.usage.completion_tokens, rate, loaded, reason);
  io.err << figures;
}

Status run(const Args& args, Streams& io) {
  const int64_t most = args.integer("-n,--max-tokens");
  if (most < 1 || most > 1 << 20) return invalid_argument("-n must be 1 to 1048576");
  const SystemClock clock;
  const int64_t begin = clock.now_us();
  BORA_ASSIGN(const std::unique_ptr<Local> local, open_local(args));
  const double loaded = static_cast<double>(clock.now_us() - begin) / 1e6;
  engine::Request request;
  BORA_ASSIGN(request.prompt, prompt_ids(args, *local->text));
  request.max_tokens = static_cast<int32_t>(most);
  request.sampling = sampling_of(args);
  if (static_cast<int64_t>(request.prompt.size()) + most > local->max_context) {
    return invalid_argument("the prompt has " + std::to_string(request.prompt.size()) +
                            " tokens and the answer may have " + std::to_string(most) + "; the context holds " +
                            std::to_string(local->max_context));
  }
  const bool stream = !args.has("--json");
  BORA_ASSIGN(const LocalAnswer a, answer(*local, request, [&](const std::string& text) {
                if (stream) io.out << text << std::flush;
                return io.out.good();
              }));
  report(args, io, a, loaded);
  return {};
}

}  // namespace

extern const Verb kRun;
const Verb kRun{
    .name = "run",
    .summary = "One answer of a model to stdout, figures to stderr",
    .flags = kFlags,
    .examples =
        "  bora run model.gguf -p 'What is the capital of France?'\n  bora run model.gguf -p 'Once' --raw -n 50 "
        "--temperature 0.8 --seed 7",
    .run = run};

}  // namespace bora::app
