// The program: the command line from the list of verbs. Exit codes: 0 done, 1 the work failed (one line says what and
// what to do), 2 wrong usage.
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>

#include "app/verb.h"
#include "app/version.h"

namespace {

using bora::app::Flag;

struct Parsed {
  const bora::app::Verb* verb = nullptr;
  CLI::App* app = nullptr;
  std::map<std::string, std::string> text;
  std::map<std::string, bool> given;
};

void add_flag(CLI::App* app, const Flag& f, Parsed* p) {
  const std::string name(f.name);
  std::string& value = p->text[name];
  value = std::string(f.fallback);
  switch (f.kind) {
    case Flag::Kind::kSwitch:
      app->add_flag(name, p->given[name], std::string(f.help));
      return;
    case Flag::Kind::kPositional:
      app->add_option(name, value, std::string(f.help))->required();
      return;
    case Flag::Kind::kOptionalPositional:
      app->add_option(name, value, std::string(f.help));
      return;
    case Flag::Kind::kInt:
      app->add_option(name, value, std::string(f.help))->check(CLI::TypeValidator<int64_t>("INTEGER"));
      return;
    case Flag::Kind::kReal:
      app->add_option(name, value, std::string(f.help))->check(CLI::Number);
      return;
    case Flag::Kind::kText:
      app->add_option(name, value, std::string(f.help));
      return;
  }
}

int run(const Parsed& p) {
  bora::app::Args args;
  for (const Flag& f : p.verb->flags) {
    const std::string name(f.name);
    if (f.kind == Flag::Kind::kSwitch) {
      if (p.given.at(name)) args.set(name, "true");
    } else if (!p.text.at(name).empty()) {
      args.set(name, p.text.at(name));
    }
  }
  bora::app::Streams io{std::cin, std::cout, std::cerr};
  const bora::Status s = p.verb->run(args, io);
  std::cout.flush();
  if (s.ok()) return std::cout.good() ? 0 : 1;
  std::cerr << "bora " << p.verb->name << ": " << s.message() << '\n';
  return 1;
}

// Other users of the machine can read a process's arguments.
void hide_secrets(const bora::app::Verb& verb, int argc, char** argv) {
  for (const Flag& f : verb.flags) {
    if (!f.secret) continue;
    const std::string name(f.name);
    for (int i = 1; i < argc; ++i) {
      char* value = nullptr;
      if (argv[i] == name && i + 1 < argc) value = argv[i + 1];
      if (std::string_view(argv[i]).starts_with(name + "=")) value = argv[i] + name.size() + 1;
      for (; value != nullptr && *value != 0; ++value) *value = '*';
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  CLI::App app("Bora: runs and serves language models.", "bora");
  app.set_version_flag("--version",
                       "bora " + std::string(bora::app::version()) + " (" + std::string(bora::app::commit()) + ")");
  app.require_subcommand(1);
  app.footer("Each verb has --help with examples.");
  std::vector<std::unique_ptr<Parsed>> parsed;
  for (const bora::app::Verb* verb : bora::app::verbs()) {
    parsed.push_back(std::make_unique<Parsed>());
    Parsed& p = *parsed.back();
    p.verb = verb;
    p.app = app.add_subcommand(std::string(verb->name), std::string(verb->summary));
    p.app->footer("Examples:\n" + std::string(verb->examples));
    for (const Flag& f : verb->flags) add_flag(p.app, f, &p);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  for (const auto& p : parsed) {
    if (!p->app->parsed()) continue;
    hide_secrets(*p->verb, argc, argv);
    return run(*p);
  }
  return 2;
}
