#include "text/template/template.h"

#include <mutex>
#include <new>

#include "text/template/context.h"
#include "text/template/interp.h"

namespace bora::text {

namespace {

using jinja::Failure;

Status to_status(const Failure& f) {
  if (f.limit) return resource_exhausted("chat template: " + f.message);
  if (f.raised) return invalid_argument(f.message);
  return invalid_argument("chat template: " + f.type + ": " + f.message);
}

class JinjaTemplate final : public Template {
 public:
  explicit JinjaTemplate(size_t memory) : program_(memory) {}

  bool render(const Json& context, const RenderOptions& options, Rendered* out, RenderError* error) const override {
    try {
      jinja::Interp in(program_, options);
      const bool lenient = options.mode == RenderOptions::Mode::kLenient;
      const jinja::Continuation continuation =
          jinja::prepare_context(in, program_, context, lenient ? &needs(options.limits) : nullptr);
      in.run();
      jinja::cut_continuation(continuation, &in.out());
      take(in, out);
      return true;
    } catch (const Failure& f) {
      error->status = to_status(f);
      error->raised_by_template = f.raised;
    } catch (const std::bad_alloc&) {
      error->status = resource_exhausted("chat template: out of memory");
      error->raised_by_template = false;
    }
    return false;
  }

  bool mentions(std::string_view variable) const override {
    const auto at = program_.name_numbers.find(std::string(variable));
    return at != program_.name_numbers.end() && program_.read[at->second];
  }

  jinja::Program* program() { return &program_; }

 private:
  static void take(jinja::Interp& in, Rendered* out) {
    const std::vector<jinja::RunStart>& runs = in.out().runs();
    out->prompt.runs.clear();
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto end = i + 1 < runs.size() ? runs[i + 1].start : static_cast<uint32_t>(in.out().size());
      out->prompt.runs.push_back({end, runs[i].from_template});
    }
    out->prompt.text = in.out().take_text();
    out->adaptations = in.adaptations();
  }

  // Found out on the first lenient render, by whichever thread comes first.
  const jinja::Needs& needs(const TemplateLimits& limits) const {
    std::call_once(probed_, [&] { needs_ = jinja::probe(program_, limits); });
    return needs_;
  }

  jinja::Program program_;
  mutable std::once_flag probed_;
  mutable jinja::Needs needs_;
};

}  // namespace

Result<std::shared_ptr<const Template>> parse_template(std::string_view source, const TemplateLimits& limits) {
  constexpr size_t kMaxSource = 8 << 20;
  if (source.size() > kMaxSource) return invalid_argument("chat template: larger than 8 MB");
  try {
    // A node takes a few hundred bytes and needs a character at least.
    auto parsed = std::make_shared<JinjaTemplate>((1 << 20) + 600 * source.size());
    jinja::parse_program(source, limits.depth, parsed->program());
    return std::shared_ptr<const Template>(std::move(parsed));
  } catch (const Failure& f) {
    return to_status(f);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("chat template: out of memory");
  }
}

}  // namespace bora::text
