// A front end without a model: tokens are a pure function of prompt, seed, choice and position, made by a step
// thread, with the bounds of a real one (queue, events a reader may leave waiting). For tests.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/rng.h"
#include "engine/engine.h"
#include "engine/model_text.h"

namespace bora::serve::test {

// 256 tokens for the bytes in the byte-level alphabet, then control tokens.
inline constexpr int32_t kStart = 256, kEnd = 257, kEos = 258, kVocab = 259;

class FakeFrontend : public engine::Frontend {
 public:
  explicit FakeFrontend(int64_t step_us = 100) : step_us_(step_us), thread_([this] { run(); }) {}
  ~FakeFrontend() override {
    stop_ = true;
    thread_.join();
  }

  Result<engine::RequestId> submit(const engine::Request& r) override {
    std::lock_guard lock(mutex_);
    if (dead) return unavailable("the engine is dead");
    if (r.prompt.empty()) return invalid_argument("prompt must not be empty");
    if (static_cast<int32_t>(live_.size()) >= queue_limit) return resource_exhausted("the queue is full");
    const engine::RequestId id = next_++;
    Live& live = live_[id];
    live.request = r;
    live.hash = hash_of(r);
    live.choices.resize(static_cast<size_t>(r.choices));
    if (script) live.text = script(r);
    engine::Event started;
    started.kind = engine::Event::Kind::kStarted;
    started.request = id;
    started.usage = usage(live, 0);
    give(id, live, started);
    for (size_t i = 0; i < r.prompt.size() && r.prompt_logprobs >= 0; ++i) give(id, live, prompt_event(id, r, i));
    ++submitted;
    last_request_ = r;
    return id;
  }
  void cancel(engine::RequestId id) override {
    std::lock_guard lock(mutex_);
    const auto it = live_.find(id);
    if (it == live_.end()) return;
    ++cancelled;
    for (size_t c = 0; c < it->second.choices.size(); ++c) {
      if (!it->second.choices[c].ended) finish(id, it->second, c, engine::Finish::kCancelled, "");
    }
  }
  bool poll(engine::RequestId id, int32_t limit, int64_t, std::vector<engine::Event>* out) override {
    std::lock_guard lock(mutex_);
    const auto it = live_.find(id);
    if (it == live_.end()) return false;
    Live& live = it->second;
    size_t taken = 0;
    while (taken < live.events.size() && taken < static_cast<size_t>(limit)) out->push_back(live.events[taken++]);
    live.events.erase(live.events.begin(), live.events.begin() + static_cast<std::ptrdiff_t>(taken));
    bool over = live.events.empty();
    for (const Choice& c : live.choices) over = over && c.ended;
    if (over) live_.erase(it);
    return true;
  }
  void ready(int64_t timeout_us, std::vector<engine::RequestId>* ids) override {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::microseconds(timeout_us), [this] { return !ready_.empty(); });
    ids->assign(ready_.begin(), ready_.end());
    ready_.clear();
  }
  std::vector<engine::ModelState> models() const override {
    return {{"test-model", "ready", "", max_context, kVocab}};
  }
  engine::Stats stats() const override {
    std::lock_guard lock(mutex_);
    engine::Stats s;
    s.running = static_cast<int32_t>(live_.size());
    s.queue_limit = queue_limit;
    s.finished_per_second = 4;
    s.waiting = waiting;
    s.dead = dead;
    s.steps = steps_;
    return s;
  }
  size_t live() const {
    std::lock_guard lock(mutex_);
    return live_.size();
  }
  // Events that wait for a reader, of all requests.
  size_t waiting_events() const {
    std::lock_guard lock(mutex_);
    size_t n = 0;
    for (const auto& [id, live] : live_) n += live.events.size();
    return n;
  }
  engine::Request last_request() const {
    std::lock_guard lock(mutex_);
    return last_request_;
  }

  std::atomic<int32_t> queue_limit{1024}, waiting{0}, submitted{0}, cancelled{0}, max_context{2048};
  std::atomic<bool> dead{false};
  std::atomic<bool> fail{false};                              // running requests end with kError
  std::atomic<bool> too_late{false};                          // running requests end with kDeadline
  std::atomic<int64_t> hold_us{0};                            // no step before a request is that old
  std::function<std::string(const engine::Request&)> script;  // set before use: what is answered, then the end

 private:
  static constexpr size_t kMaxEvents = 64;
  struct Choice {
    int32_t made = 0;
    std::string text;
    bool ended = false;
  };
  struct Live {
    engine::Request request;
    uint64_t hash = 0;
    std::string text;
    std::vector<Choice> choices;
    std::vector<engine::Event> events;
    std::chrono::steady_clock::time_point born = std::chrono::steady_clock::now();
  };

  static uint64_t hash_of(const engine::Request& r) {
    uint64_t h = 1;
    for (const int32_t id : r.prompt) h = mix64(h * 31 + static_cast<uint64_t>(id) + 7);
    return r.sampling.temperature > 0 ? mix64(h ^ r.sampling.seed) : h;
  }
  static engine::Usage usage(const Live& live, int32_t made) {
    const auto prompt = static_cast<int32_t>(live.request.prompt.size());
    return {prompt, live.request.use_cache ? prompt / 2 : 0, made};
  }
  static engine::TokenLogprob logprob(int32_t id, int32_t rank) {
    return {id, -0.25f * static_cast<float>(rank + 1), std::string(1, static_cast<char>(id))};
  }
  static engine::Event prompt_event(engine::RequestId id, const engine::Request& r, size_t i) {
    engine::Event e;
    e.kind = engine::Event::Kind::kPrompt;
    e.request = id;
    e.token = r.prompt[i];
    if (i > 0) {
      e.logprob = logprob(r.prompt[i] % 256, 0);
      for (int32_t k = 0; k < r.prompt_logprobs; ++k) e.top.push_back(logprob('a' + k, k));
    }
    return e;
  }
  void give(engine::RequestId id, Live& live, engine::Event event) {
    live.events.push_back(std::move(event));
    ready_.insert(id);
    wake_.notify_one();
  }
  void finish(engine::RequestId id, Live& live, size_t choice, engine::Finish how, std::string reason) {
    Choice& c = live.choices[choice];
    c.ended = true;
    engine::Event e;
    e.kind = engine::Event::Kind::kFinished;
    e.request = id;
    e.choice = static_cast<int32_t>(choice);
    e.finish = how;
    e.stop_reason = std::move(reason);
    e.usage = usage(live, c.made);
    if (how == engine::Finish::kError) e.note = "the fake fails";
    give(id, live, e);
  }
  void step(engine::RequestId id, Live& live, size_t choice) {
    Choice& c = live.choices[choice];
    const engine::Request& r = live.request;
    if (c.ended || live.events.size() >= kMaxEvents) return;
    if (fail) return finish(id, live, choice, engine::Finish::kError, "");
    if (too_late) return finish(id, live, choice, engine::Finish::kDeadline, "");
    if (c.made >= r.max_tokens) return finish(id, live, choice, engine::Finish::kLength, "");
    if (!live.text.empty() && c.made >= static_cast<int32_t>(live.text.size()))
      return finish(id, live, choice, engine::Finish::kStop, "");
    const uint64_t noise = mix64(live.hash + 977 * choice + static_cast<uint64_t>(c.made));
    const int32_t token = live.text.empty() ? 'a' + static_cast<int32_t>(noise % 26)
                                            : static_cast<unsigned char>(live.text[static_cast<size_t>(c.made)]);
    ++c.made;
    engine::Event e;
    e.request = id;
    e.choice = static_cast<int32_t>(choice);
    e.token = token;
    e.text = std::string(1, static_cast<char>(token));
    if (token == 1) {  // in a script: the control token that ends a turn, which did not end this one
      e.token = kEnd;
      e.text = "<|im_end|>";
      e.special = true;
    }
    if (r.sampling.logprobs >= 0) {
      e.logprob = logprob(token, 0);
      for (int32_t k = 0; k < r.sampling.logprobs; ++k) e.top.push_back(logprob('a' + (token + k) % 26, k));
    }
    c.text += e.text;
    for (const std::string& stop : r.sampling.stop) {
      if (!c.text.ends_with(stop)) continue;
      e.text.clear();
      give(id, live, e);
      return finish(id, live, choice, engine::Finish::kStop, stop);
    }
    give(id, live, e);
  }
  void run() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::microseconds(step_us_));
      std::lock_guard lock(mutex_);
      ++steps_;
      const auto now = std::chrono::steady_clock::now();
      for (auto& [id, live] : live_) {
        if (now - live.born < std::chrono::microseconds(hold_us)) continue;
        for (size_t c = 0; c < live.choices.size(); ++c) step(id, live, c);
      }
    }
  }

  const int64_t step_us_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<engine::RequestId, Live> live_;
  std::set<engine::RequestId> ready_;
  engine::RequestId next_ = 1;
  engine::Request last_request_;
  int64_t steps_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The byte-level alphabet of GPT-2: printable bytes stand for themselves, the others for U+0100 and up.
inline std::string byte_name(int byte) {
  int code = byte, extra = 256;
  const auto plain = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); };
  if (!plain(byte)) {
    for (int b = 0; b < byte; ++b) extra += plain(b) ? 0 : 1;
    code = extra;
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

inline std::unique_ptr<engine::ModelText> make_text() {
  Json vocab = Json::object(), added = Json::array(), model = Json::object(), root = Json::object();
  for (int b = 0; b < 256; ++b) vocab.set(byte_name(b), b);
  int32_t id = kStart;
  for (const char* special : {"<|im_start|>", "<|im_end|>", "<|endoftext|>"}) {
    Json token = Json::object();
    token.set("id", id++);
    token.set("content", special);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) token.set(flag, false);
    token.set("special", true);
    added.push_back(std::move(token));
  }
  model.set("type", "BPE");
  model.set("vocab", std::move(vocab));
  model.set("merges", Json::array());
  Json level = Json::object();
  level.set("type", "ByteLevel");
  level.set("add_prefix_space", false);
  level.set("trim_offsets", true);
  level.set("use_regex", true);
  root.set("version", "1.0");
  root.set("added_tokens", std::move(added));
  root.set("pre_tokenizer", level);
  root.set("decoder", level);
  root.set("model", std::move(model));
  auto text = std::make_unique<engine::ModelText>();
  auto tokenizer = text::tokenizer_from_json(root.dump(), "");
  BORA_CHECK(tokenizer.ok(), tokenizer.status().message().c_str());
  text->tokenizer = *std::move(tokenizer);
  text->template_source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{% if enable_thinking %}<think>\n{% endif %}";
  auto parsed = text::parse_template(text->template_source, {});
  BORA_CHECK(parsed.ok(), parsed.status().message().c_str());
  text->chat_template = *std::move(parsed);
  text->answers = text::find_answer_format("hermes");
  text->eos_token = "<|im_end|>";
  return text;
}

}  // namespace bora::serve::test
