#include "app/local.h"

#include <algorithm>
#include <limits>

#include "app/backends.h"
#include "text/template/template.h"

namespace bora::app {
namespace {

int32_t narrow(int64_t v) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(v, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

}  // namespace

Result<std::unique_ptr<Local>> open_local(const Args& args) {
  auto local = std::make_unique<Local>();
  BORA_ASSIGN(local->device,
              open_device(args.text("--device"), {narrow(args.integer("--threads")), args.text("--isa")}));
  BORA_ASSIGN(local->host,
              engine::Host::create({}, {local->device.get(), &local->clock, local->log.get(), &local->metrics}));
  engine::ModelOptions options;
  options.name = "model";
  options.path = args.text("MODEL");
  options.max_batch = 1;
  options.max_context = narrow(args.integer("--max-context"));
  BORA_TRY(local->host->load(options));
  local->text = local->host->text("model");
  local->max_context = local->host->models()[0].max_context;
  return local;
}

engine::SamplingParams sampling_of(const Args& args) {
  const auto real = [&](std::string_view name) { return static_cast<float>(args.real(name)); };
  engine::SamplingParams p;
  p.temperature = real("--temperature");
  p.top_k = narrow(args.integer("--top-k"));
  p.top_p = real("--top-p");
  p.min_p = real("--min-p");
  p.typical_p = real("--typical-p");
  p.top_n_sigma = real("--top-n-sigma");
  p.repetition_penalty = real("--repetition-penalty");
  p.presence_penalty = real("--presence-penalty");
  p.frequency_penalty = real("--frequency-penalty");
  p.xtc_probability = real("--xtc-probability");
  p.xtc_threshold = real("--xtc-threshold");
  p.dry_multiplier = real("--dry-multiplier");
  p.has_seed = true;
  p.seed = static_cast<uint64_t>(args.integer("--seed"));
  if (args.has("--stop")) p.stop = {args.text("--stop")};
  return p;
}

Result<std::vector<int32_t>> chat_ids(const engine::ModelText& text, const Json& messages) {
  if (text.chat_template == nullptr) return not_found("the model has no chat template: use bora run --raw");
  Json context = Json::object();
  context.set("messages", messages);
  context.set("add_generation_prompt", true);
  context.set("bos_token", text.bos_token);
  context.set("eos_token", text.eos_token);
  text::RenderOptions options;
  options.mode = text::RenderOptions::Mode::kLenient;
  text::Rendered rendered;
  text::RenderError error;
  if (!text.chat_template->render(context, options, &rendered, &error))
    return std::move(error.status).with_context("chat template");
  std::vector<int32_t> ids;
  text.tokenizer->encode_spans(rendered.prompt, true, &ids);
  return ids;
}

Result<LocalAnswer> answer(Local& local, const engine::Request& request,
                           const std::function<bool(const std::string&)>& piece) {
  const int64_t begin = local.clock.now_us();
  BORA_ASSIGN(const engine::RequestId id, local.host->submit(request));
  LocalAnswer out;
  int64_t first = 0;
  std::vector<engine::Event> events;
  while (local.host->poll(id, 64, 100'000, &events)) {
    for (const engine::Event& e : events) {
      if (e.kind == engine::Event::Kind::kToken && first == 0) first = local.clock.now_us();
      out.text += e.text;
      if (!e.text.empty() && !piece(e.text)) local.host->cancel(id);
      if (e.kind != engine::Event::Kind::kFinished) continue;
      out.finish = e.finish;
      out.usage = e.usage;
      if (e.finish == engine::Finish::kError) return internal_error(e.note);
    }
    if (events.empty() && !piece("")) local.host->cancel(id);
    events.clear();
  }
  const int64_t end = local.clock.now_us();
  if (first == 0) first = end;
  out.first_seconds = static_cast<double>(first - begin) / 1e6;
  out.rest_seconds = static_cast<double>(end - first) / 1e6;
  return out;
}

}  // namespace bora::app
