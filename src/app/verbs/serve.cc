// serve: the HTTP server over the engines of one process. The composition root of serving: everything is made here,
// in the order in which it depends on each other, and ended in the reverse one.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <fstream>
#include <limits>
#include <mutex>
#include <ostream>
#include <random>
#include <thread>

#include "app/backends.h"
#include "app/verb.h"
#include "app/version.h"
#include "engine/host.h"
#include "net/server.h"
#include "serve/api.h"
#include "serve/generation.h"
#include "serve/keys.h"
#include "serve/services.h"

namespace bora::app {
namespace {

constexpr Flag kFlags[] = {
    {"MODEL", Flag::Kind::kPositional, "a .gguf or .safetensors file, or a directory"},
    {"--host", Flag::Kind::kText, "address to listen on; one that others reach needs a key", "127.0.0.1"},
    {"--port", Flag::Kind::kInt, "0 = any free one", "8080"},
    {"--unix", Flag::Kind::kText, "listen on this socket instead"},
    {"--device", Flag::Kind::kText, "auto or cpu", "auto"},
    {"--threads", Flag::Kind::kInt, "worker threads; 0 = all cores", "0"},
    {"--isa", Flag::Kind::kText, "force an instruction-set level of the CPU"},
    {"--max-context", Flag::Kind::kInt, "positions a sequence; 0 = what the model and the memory allow", "0"},
    {"--max-batch", Flag::Kind::kInt, "sequences a step", "16"},
    {"--max-batch-tokens", Flag::Kind::kInt, "tokens a step", "512"},
    {"--kv-memory", Flag::Kind::kText, "bytes of state, with K, M or G; 0 = chosen", "0"},
    {"--kv-dtype", Flag::Kind::kText, "bf16, f16 or f32", "bf16"},
    {"--step-target", Flag::Kind::kInt, "milliseconds a step should stay under", "50"},
    {"--stall-timeout", Flag::Kind::kInt, "seconds until a client that takes nothing is ended; 0 = never", "300"},
    {"--drain-timeout", Flag::Kind::kInt, "seconds that running requests have after SIGTERM", "30"},
    {"--api-key", Flag::Kind::kText, "the key that clients send; prefer --api-key-file", "", true},
    {"--api-key-file", Flag::Kind::kText, "a file with a key a line, read again on SIGHUP"},
    {"--admin-key", Flag::Kind::kText, "the key for administration; prefer --admin-key-file", "", true},
    {"--admin-key-file", Flag::Kind::kText, "a file with a key a line, read again on SIGHUP"},
    {"--allow-open", Flag::Kind::kSwitch, "serve a public address without a key"},
    {"--model-name", Flag::Kind::kText, "as clients call it; the file's name when absent"},
    {"--chat-template", Flag::Kind::kText, "a file that replaces the model's chat template"},
    {"--parser", Flag::Kind::kText, "answer format, as bora parse names it"},
    {"--strict", Flag::Kind::kSwitch, "unknown fields of a request are refused"},
    {"--metrics-open", Flag::Kind::kSwitch, "/metrics needs no key"},
    {"--metrics-names", Flag::Kind::kText, "vllm: metrics under those names too"},
    {"--log-format", Flag::Kind::kText, "text or json", "text"}};

Result<int64_t> in_range(const Args& args, std::string_view name, int64_t low, int64_t high) {
  const int64_t v = args.integer(name);
  if (v < low || v > high)
    return invalid_argument(std::string(name) + " must be " + std::to_string(low) + " to " + std::to_string(high));
  return v;
}

// "512M"
Result<int64_t> parse_size(std::string_view name, const std::string& text) {
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  const std::string unit(end);
  const double scale = unit.empty() ? 1 : unit == "K" ? 1 << 10 : unit == "M" ? 1 << 20 : unit == "G" ? 1 << 30 : 0;
  if (end == text.c_str() || scale == 0 || !(v >= 0) || v * scale > 1e15)
    return invalid_argument(std::string(name) + " must be a number of bytes, with K, M or G behind it");
  return static_cast<int64_t>(v * scale);
}

Result<DType> kv_dtype_of(const std::string& name) {
  if (name == "bf16") return DType::kBF16;
  if (name == "f16") return DType::kF16;
  if (name == "f32") return DType::kF32;
  return invalid_argument("--kv-dtype must be bf16, f16 or f32");
}

struct Settings {
  engine::HostOptions host;
  engine::ModelOptions model;
  net::ServerOptions net;
  serve::ServiceOptions services;
  serve::ApiOptions api;
  serve::KeySources keys;
  int64_t drain_us = 0;
};

std::string name_of(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  name = name.substr(name.find_last_of('/') + 1);
  for (const std::string_view end : {".gguf", ".safetensors", ".bora"}) {
    if (name.size() > end.size() && name.ends_with(end)) name.resize(name.size() - end.size());
  }
  return name;
}

Status read_model(const Args& args, engine::ModelOptions* m) {
  constexpr int64_t kInt32 = std::numeric_limits<int32_t>::max();
  m->path = args.text("MODEL");
  m->name = args.has("--model-name") ? args.text("--model-name") : name_of(m->path);
  if (m->name.size() > 1024) return invalid_argument("--model-name may have at most 1024 bytes");
  BORA_ASSIGN(const int64_t context, in_range(args, "--max-context", 0, kInt32));
  BORA_ASSIGN(const int64_t batch, in_range(args, "--max-batch", 1, 4096));
  BORA_ASSIGN(const int64_t tokens, in_range(args, "--max-batch-tokens", 1, 1 << 20));
  BORA_ASSIGN(const int64_t target, in_range(args, "--step-target", 1, 60'000));
  m->max_context = static_cast<int32_t>(context);
  m->max_batch = static_cast<int32_t>(batch);
  m->max_batch_tokens = static_cast<int32_t>(tokens);
  m->step_target_us = target * 1000;
  BORA_ASSIGN(m->kv_memory, parse_size("--kv-memory", args.text("--kv-memory")));
  BORA_ASSIGN(m->kv_dtype, kv_dtype_of(args.text("--kv-dtype")));
  m->text.template_file = args.text("--chat-template");
  m->text.parser = args.text("--parser");
  return {};
}

Result<Settings> read_settings(const Args& args) {
  Settings s;
  BORA_TRY(read_model(args, &s.model));
  BORA_ASSIGN(const int64_t port, in_range(args, "--port", 0, 65535));
  BORA_ASSIGN(const int64_t stall, in_range(args, "--stall-timeout", 0, 1 << 24));
  BORA_ASSIGN(const int64_t drain, in_range(args, "--drain-timeout", 0, 1 << 24));
  s.net.host = args.text("--host");
  s.net.port = static_cast<uint16_t>(port);
  s.net.unix_path = args.text("--unix");
  s.net.stall_timeout_us = stall == 0 ? std::numeric_limits<int64_t>::max() / 4000 : stall * 1'000'000;
  s.host.stall_timeout_us = stall * 1'000'000;
  s.drain_us = drain * 1'000'000;
  std::random_device random;
  s.host.seed = (uint64_t{random()} << 32) | random();
  s.services.seed = (uint64_t{random()} << 32) | random();
  s.services.version = std::string(version());
  s.services.commit = std::string(commit());
  s.services.strict = args.has("--strict");
  const std::string& names = args.text("--metrics-names");
  if (!names.empty() && names != "vllm") return invalid_argument("--metrics-names can only be vllm");
  s.services.vllm_names = names == "vllm";
  s.api.metrics_open = args.has("--metrics-open");
  if (args.has("--api-key")) s.keys.api_keys.push_back(args.text("--api-key"));
  if (args.has("--admin-key")) s.keys.admin_keys.push_back(args.text("--admin-key"));
  s.keys.api_key_file = args.text("--api-key-file");
  s.keys.admin_key_file = args.text("--admin-key-file");
  return s;
}

// Each connection takes a descriptor: as many as the system gives, and some left for files.
size_t connection_limit(size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = static_cast<size_t>(limit.rlim_cur);
  return most > wanted + 128 ? wanted : std::max<size_t>(most, 160) - 128;
}

// Seconds since the process began; 0 when the system does not tell.
double process_age() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  timespec now{};
  if (at == std::string::npos || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double begin = std::strtod(text.c_str() + at, nullptr) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - begin;
}

// SIGTERM and SIGINT ask once for a drain and then end the process; SIGHUP reads the keys again. Made before any
// other thread, so that all of them inherit the blocked set.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set_, s);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }
  ~Signals() {
    if (!thread_.joinable()) return;
    done_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  void start(serve::Keys* keys, Logger* log) {
    thread_ = std::thread([this, keys, log] { run(keys, log); });
  }
  // From now on the first SIGTERM drains; before, it ended the process at once.
  void serving() { serving_ = true; }
  void wait() {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [this] { return ending_; });
  }

 private:
  void run(serve::Keys* keys, Logger* log) {
    int which = 0;
    while (sigwait(&set_, &which) == 0 && !done_) {
      if (which == SIGHUP) {
        const Status status = keys->reload();
        if (status.ok()) {
          log->info("keys read again");
        } else {
          log->error("keys stay as they were", {{"why", std::string_view(status.message())}});
        }
        continue;
      }
      if (which == SIGUSR1) continue;
      if (!serving_) std::_Exit(0);
      std::lock_guard lock(mutex_);
      if (ending_) std::_Exit(1);
      ending_ = true;
      asked_.notify_all();
    }
  }
  sigset_t set_;
  std::thread thread_;
  std::atomic<bool> done_{false}, serving_{false};
  std::mutex mutex_;
  std::condition_variable asked_;
  bool ending_ = false;
};

Status listen_load_serve(const Settings& s, engine::Host& host, serve::Services& services, serve::Api& api,
                         Signals& signals, Streams& io) {
  const Clock& clock = services.clock();
  const int64_t begin = clock.now_us();
  BORA_ASSIGN(const std::unique_ptr<net::Server> server, net::Server::start(s.net, &api));
  services.set_connections([&server] { return server->connections(); });
  const int64_t listening = clock.now_us();
  BORA_TRY(host.load(s.model));
  int32_t context = 0;
  for (const engine::ModelState& state : host.models()) {
    if (state.name == s.model.name) context = state.max_context;
  }
  services.add_model(
      {s.model.name, host.text(s.model.name), context, clock.unix_seconds(), !s.model.text.parser.empty()});
  const int64_t loaded = clock.now_us();
  const double age = process_age();
  services.log().info("started", {{"listen_ms", static_cast<double>(listening - begin) * 1e-3},
                                  {"load_ms", static_cast<double>(loaded - listening) * 1e-3},
                                  {"before_ms", age * 1e3 - static_cast<double>(loaded - begin) * 1e-3},
                                  {"total_ms", age * 1e3}});
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.2f", age);
  io.out << "ready " << server->url() << " in " << seconds << " s" << std::endl;
  signals.serving();
  signals.wait();
  services.log().info("draining", {{"open_requests", api.open_requests()}});
  services.set_draining();
  host.drain(s.drain_us);
  // What has ended still has to reach its clients.
  const int64_t flush_until = clock.now_us() + 2'000'000;
  while (api.open_requests() > 0 && clock.now_us() < flush_until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  services.log().info("ended");
  return {};
}

Status serve_model(const Args& args, Streams& io) {
  BORA_ASSIGN(Settings s, read_settings(args));
  const std::string& format = args.text("--log-format");
  if (format != "text" && format != "json") return invalid_argument("--log-format must be text or json");
  const auto log = make_stderr_logger(format == "json" ? LogFormat::kJson : LogFormat::kText, LogLevel::kInfo);
  const auto files = make_os_file_system();
  BORA_ASSIGN(const std::unique_ptr<serve::Keys> keys, serve::Keys::create(s.keys, files.get()));
  BORA_TRY(serve::check_exposure(s.net.host, !s.net.unix_path.empty(), keys->any_api(), args.has("--allow-open")));
  BORA_TRY_CONTEXT(files->info(s.model.path).status(), "MODEL");
  Signals signals;
  signals.start(keys.get(), log.get());
  s.net.max_connections = connection_limit(s.net.max_connections);
  SystemClock clock;
  MetricsRegistry metrics;
  BORA_ASSIGN(
      const std::unique_ptr<device::Device> device,
      open_device(args.text("--device"), {static_cast<int32_t>(args.integer("--threads")), args.text("--isa")}));
  BORA_ASSIGN(const std::unique_ptr<engine::Host> host,
              engine::Host::create(s.host, {device.get(), &clock, log.get(), &metrics}));
  serve::Services services(s.services, {host.get(), &clock, log.get(), &metrics});
  serve::Api api(s.api, &services, keys.get());
  return listen_load_serve(s, *host, services, api, signals, io);
}

}  // namespace

extern const Verb kServe;
const Verb kServe = {"serve", "Serve a model over HTTP", kFlags,
                     "  bora serve model.gguf\n"
                     "  bora serve model.gguf --port 0 --model-name small --api-key-file keys.txt\n"
                     "  bora serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --metrics-names vllm\n",
                     serve_model};

}  // namespace bora::app
