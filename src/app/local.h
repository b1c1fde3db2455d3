// A model in this process for verbs that talk to it themselves: a host with one model on one device, and what flags
// say of sampling.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/verb.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/metrics.h"
#include "device/device.h"
#include "engine/host.h"

namespace bora::app {

inline constexpr Flag kDeviceFlags[] = {{"--threads", Flag::Kind::kInt, "worker threads; 0 = all cores", "0"},
                                        {"--isa", Flag::Kind::kText, "force an instruction-set level of the CPU"},
                                        {"--device", Flag::Kind::kText, "auto, cpu or null", "auto"},
                                        {"--max-context", Flag::Kind::kInt, "positions; 0 = the model's own", "0"}};

inline constexpr Flag kSamplingFlags[] = {
    {"--top-k", Flag::Kind::kInt, "0 = all", "0"},
    {"--top-p", Flag::Kind::kReal, "probability mass that is kept", "1"},
    {"--min-p", Flag::Kind::kReal, "least likelihood beside the likeliest token", "0"},
    {"--typical-p", Flag::Kind::kReal, "mass of tokens of typical surprise that is kept", "1"},
    {"--top-n-sigma", Flag::Kind::kReal, "standard deviations below the greatest logit; 0 = off", "0"},
    {"--repetition-penalty", Flag::Kind::kReal, "of tokens of prompt and answer; 1 = off", "1"},
    {"--presence-penalty", Flag::Kind::kReal, "of tokens of the answer, once", "0"},
    {"--frequency-penalty", Flag::Kind::kReal, "of tokens of the answer, each time", "0"},
    {"--xtc-probability", Flag::Kind::kReal, "how often the likeliest tokens are left out", "0"},
    {"--xtc-threshold", Flag::Kind::kReal, "likelihood from which they may be", "0.1"},
    {"--dry-multiplier", Flag::Kind::kReal, "penalty of repeated sequences; 0 = off", "0"},
    {"--seed", Flag::Kind::kInt, "of the sampling noise", "0"},
    {"--stop", Flag::Kind::kText, "text that ends the answer"}};

template <size_t A, size_t B>
constexpr std::array<Flag, A + B> join(const Flag (&a)[A], const Flag (&b)[B]) {
  std::array<Flag, A + B> out{};
  for (size_t i = 0; i < A; ++i) out[i] = a[i];
  for (size_t i = 0; i < B; ++i) out[A + i] = b[i];
  return out;
}
template <size_t A, size_t B>
constexpr std::array<Flag, A + B> join(const std::array<Flag, A>& a, const Flag (&b)[B]) {
  std::array<Flag, A + B> out{};
  for (size_t i = 0; i < A; ++i) out[i] = a[i];
  for (size_t i = 0; i < B; ++i) out[A + i] = b[i];
  return out;
}

struct Local {
  SystemClock clock;
  std::unique_ptr<Logger> log = make_stderr_logger(LogFormat::kText, LogLevel::kWarn);
  MetricsRegistry metrics;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<engine::Host> host;
  const engine::ModelText* text = nullptr;
  int32_t max_context = 0;
};

// By MODEL and kDeviceFlags.
Result<std::unique_ptr<Local>> open_local(const Args& args);
// By kSamplingFlags and --temperature.
engine::SamplingParams sampling_of(const Args& args);

// The ids of a conversation (a list of {"role", "content"}), rendered by the model's template with the answer begun.
Result<std::vector<int32_t>> chat_ids(const engine::ModelText& text, const Json& messages);

struct LocalAnswer {
  std::string text;
  engine::Finish finish = engine::Finish::kError;
  engine::Usage usage;
  double first_seconds = 0, rest_seconds = 0;  // to the first token, and from there to the end
};
// Hands each piece of text to `piece` as it comes; false from it cancels.
Result<LocalAnswer> answer(Local& local, const engine::Request& request,
                           const std::function<bool(const std::string&)>& piece);

}  // namespace bora::app
