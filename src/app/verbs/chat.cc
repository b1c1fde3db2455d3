// chat: a conversation on the terminal, streamed, with line editing and history; from a pipe, a message a line.
#include "text/chat/chat.h"

#include <editline/readline.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <istream>
#include <ostream>

#include "app/local.h"
#include "app/verb.h"

namespace bora::app {
namespace {

constexpr Flag kOwnFlags[] = {
    {"MODEL", Flag::Kind::kPositional, "a .gguf or .safetensors file, or a directory"},
    {"--system", Flag::Kind::kText, "what the model is told before"},
    {"-n,--max-tokens", Flag::Kind::kInt, "tokens of an answer at most; 0 = what the context holds", "0"},
    {"--temperature", Flag::Kind::kReal, "0 = greedy", "0.7"},
    {"--history", Flag::Kind::kText, "a file that keeps the typed lines from one time to the next"}};
constexpr auto kFlags = join(join(kOwnFlags, kSamplingFlags), kDeviceFlags);

constexpr char kHelp[] =
    "/clear forgets the conversation, /undo the last exchange, /system TEXT sets what the model is told before\n"
    "(and clears), /exit or the end of input leaves. Ctrl-C stops an answer.\n";

std::atomic<bool> interrupted{false};  // the one thing that a signal handler may touch
void on_interrupt(int) { interrupted = true; }

// Ctrl-C stops an answer and not the program, while one is written.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = false;
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    ::sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

// Lines from a terminal with editing, or from any stream without.
class Lines {
 public:
  Lines(Streams& io, const std::string& history)
      : io_(io), terminal_(::isatty(0) == 1 && ::isatty(1) == 1), file_(history) {
    if (!terminal_) return;
    rl_initialize();
    using_history();
    stifle_history(1000);
    if (!file_.empty()) read_history(file_.c_str());
  }
  ~Lines() {
    if (terminal_ && !file_.empty()) write_history(file_.c_str());
  }
  bool terminal() const { return terminal_; }
  bool next(std::string* line) {
    if (!terminal_) return static_cast<bool>(std::getline(io_.in, *line));
    io_.out.flush();
    char* text = readline("> ");
    if (text == nullptr) return false;
    *line = text;
    if (!line->empty()) add_history(text);
    std::free(text);
    return true;
  }

 private:
  Streams& io_;
  bool terminal_;
  std::string file_;
};

Json message(const char* role, const std::string& content) {
  Json m = Json::object();
  m.set("role", role);
  m.set("content", content);
  return m;
}

class Conversation {
 public:
  Conversation(const Args& args, Streams& io, Local* local)
      : io_(io), local_(*local), most_(args.integer("-n,--max-tokens")), sampling_(sampling_of(args)) {
    clear(args.text("--system"));
  }

  // A command: true when the line was one. *leave: the conversation is over.
  bool command(const std::string& line, bool* leave) {
    if (line.empty() || line[0] != '/') return false;
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space), rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/exit" || name == "/quit") {
      *leave = true;
    } else if (name == "/clear") {
      clear(system_);
    } else if (name == "/system") {
      clear(rest);
    } else if (name == "/undo") {
      if (messages_.size() >= fixed_ + 2) messages_.resize(messages_.size() - 2);
    } else {
      io_.err << kHelp;
    }
    return true;
  }

  Status say(const std::string& line) {
    messages_.push_back(message("user", line));
    const Status s = answer_last();
    if (!s.ok()) messages_.pop_back();
    return s;
  }

 private:
  void clear(const std::string& system) {
    system_ = system;
    messages_.clear();
    if (!system_.empty()) messages_.push_back(message("system", system_));
    fixed_ = messages_.size();
  }

  Status answer_last() {
    engine::Request request;
    BORA_ASSIGN(request.prompt, chat_ids(*local_.text, Json::array(messages_)));
    const int64_t room = local_.max_context - static_cast<int64_t>(request.prompt.size());
    if (room < 1) {
      return out_of_range("the conversation has " + std::to_string(request.prompt.size()) +
                          " tokens, the context holds " + std::to_string(local_.max_context) + ": /undo or /clear");
    }
    request.max_tokens = static_cast<int32_t>(most_ > 0 ? std::min(most_, room) : room);
    request.sampling = sampling_;
    request.sampling.seed += static_cast<uint64_t>(messages_.size());
    const InterruptGuard guard;
    BORA_ASSIGN(const LocalAnswer a, answer(local_, request, [this](const std::string& text) {
                  io_.out << text << std::flush;
                  return io_.out.good() && !interrupted;
                }));
    io_.out << '\n' << std::flush;
    if (a.finish == engine::Finish::kLength) io_.err << "(cut after " << a.usage.completion_tokens << " tokens)\n";
    // What goes back to the model is its content, without reasoning.
    const text::Answer parsed = text::parse_answer(*local_.text->answers, {}, a.text, text::AnswerEnd::kStop);
    messages_.push_back(message("assistant", parsed.content.empty() ? a.text : parsed.content));
    return {};
  }

  Streams& io_;
  Local& local_;
  const int64_t most_;
  const engine::SamplingParams sampling_;
  std::string system_;
  std::vector<Json> messages_;
  size_t fixed_ = 0;
};

Status chat(const Args& args, Streams& io) {
  const int64_t most = args.integer("-n,--max-tokens");
  if (most < 0 || most > 1 << 20) return invalid_argument("-n must be 0 to 1048576");
  BORA_ASSIGN(const std::unique_ptr<Local> local, open_local(args));
  if (local->text->chat_template == nullptr) return not_found("the model has no chat template: use bora run --raw");
  Lines lines(io, args.text("--history"));
  if (lines.terminal()) io.err << "/help for commands, Ctrl-D to leave\n";
  Conversation conversation(args, io, local.get());
  std::string line;
  Status last;
  bool leave = false;
  while (!leave && lines.next(&line)) {
    if (line.empty() || conversation.command(line, &leave)) continue;
    last = conversation.say(line);
    if (last.ok()) continue;
    if (!lines.terminal()) return last;
    io.err << last.message() << '\n';
  }
  if (lines.terminal() && !leave) io.out << '\n';
  return {};
}

}  // namespace

extern const Verb kChat;
const Verb kChat{.name = "chat",
                 .summary = "A conversation with a model on the terminal",
                 .flags = kFlags,
                 .examples =
                     "  bora chat model.gguf --system 'You answer in one sentence.'\n"
                     "  printf 'Hello\\nAnd again?\\n' | bora chat model.gguf --temperature 0 -n 64",
                 .run = chat};

}  // namespace bora::app
