// completion: scripts for bash, zsh and fish. manual: the manual page. Both are written from the list of verbs.
#include <ostream>

#include "app/verb.h"

namespace bora::app {
namespace {

bool is_positional(const Flag& f) {
  return f.kind == Flag::Kind::kPositional || f.kind == Flag::Kind::kOptionalPositional;
}

// "-p,--prompt" -> "-p", "--prompt".
std::vector<std::string> spellings(const Flag& f) {
  std::vector<std::string> out;
  std::string_view rest = f.name;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    out.emplace_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return out;
}

std::string words_of(const Verb& v) {
  std::string out = "--help";
  for (const Flag& f : v.flags) {
    if (is_positional(f)) continue;
    for (const std::string& s : spellings(f)) out += " " + s;
  }
  return out;
}

std::string names() {
  std::string out;
  for (const Verb* v : verbs()) out += (out.empty() ? "" : " ") + std::string(v->name);
  return out;
}

// For a text in single quotes.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void write_bash(std::ostream& out) {
  out << "# bash completion of bora: source <(bora completion bash)\n_bora() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then words='--help --version "
      << names() << "'; else\n  case ${COMP_WORDS[1]} in\n";
  for (const Verb* v : verbs()) out << "    " << v->name << ") words='" << words_of(*v) << "' ;;\n";
  out << "  esac\n  fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  case $word in -*) ;; *) [ \"$COMP_CWORD\" -gt 1 ] && COMPREPLY+=($(compgen -f -- \"$word\")) ;; esac\n}\n"
         "complete -o filenames -F _bora bora\n";
}

void write_zsh(std::ostream& out) {
  out << "#compdef bora\n# zsh completion of bora: bora completion zsh > \"${fpath[1]}/_bora\"\n_bora() {\n"
         "  local -a verbs=(";
  for (const Verb* v : verbs()) out << "\n    " << quoted(std::string(v->name) + ":" + std::string(v->summary));
  out << ")\n  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n  case $words[2] in\n";
  for (const Verb* v : verbs()) {
    out << "    " << v->name << ") compadd -- " << words_of(*v) << "; _files ;;\n";
  }
  out << "  esac\n}\ncompdef _bora bora\n";
}

void write_fish(std::ostream& out) {
  out << "# fish completion of bora: bora completion fish > ~/.config/fish/completions/bora.fish\n";
  for (const Verb* v : verbs()) {
    out << "complete -c bora -n __fish_use_subcommand -f -a " << v->name << " -d " << quoted(v->summary) << '\n';
    for (const Flag& f : v->flags) {
      if (is_positional(f)) continue;
      out << "complete -c bora -n '__fish_seen_subcommand_from " << v->name << "'";
      for (const std::string& s : spellings(f)) {
        const bool longer = s.rfind("--", 0) == 0;
        out << (longer ? " -l " : " -s ") << s.substr(longer ? 2 : 1);
      }
      if (f.kind != Flag::Kind::kSwitch) out << " -r";
      out << " -d " << quoted(f.help) << '\n';
    }
  }
}

struct Shell {
  std::string_view name;
  void (*write)(std::ostream& out);
};
constexpr Shell kShells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};

Status completion(const Args& args, Streams& io) {
  std::string known;
  for (const Shell& shell : kShells) {
    known += (known.empty() ? "" : ", ") + std::string(shell.name);
    if (args.text("SHELL") != shell.name) continue;
    shell.write(io.out);
    return {};
  }
  return invalid_argument("no completion for '" + args.text("SHELL") + "'; known: " + known);
}

// Text in roff: a leading dot or quote and every backslash and hyphen are told apart from requests.
std::string roff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

void write_flag(std::ostream& out, const Flag& f) {
  out << ".TP\n.B " << roff(f.name) << '\n' << roff(f.help);
  if (!f.fallback.empty()) out << " (" << roff(f.fallback) << ')';
  out << '\n';
}

Status manual(const Args&, Streams& io) {
  std::ostream& out = io.out;
  out << ".TH BORA 1\n.SH NAME\nbora \\- runs and serves language models\n.SH SYNOPSIS\n.B bora\n"
         ".I VERB\n[\\fIargument\\fR ...]\n.SH DESCRIPTION\n"
         "One program that loads a language model from a file or directory, runs it on the device at hand, and serves "
         "it over HTTP.\n.SH VERBS\n";
  for (const Verb* v : verbs()) {
    out << ".SS bora " << roff(v->name) << '\n' << roff(v->summary) << ".\n";
    for (const Flag& f : v->flags) write_flag(out, f);
    out << ".PP\nExamples:\n.nf\n" << roff(v->examples);
    if (!v->examples.empty() && v->examples.back() != '\n') out << '\n';
    out << ".fi\n";
  }
  out << ".SH EXIT STATUS\n0: done. 1: the work failed; one line says what and what to do. 2: wrong usage.\n";
  return {};
}

constexpr Flag kCompletionFlags[] = {{"SHELL", Flag::Kind::kPositional, "bash, zsh or fish"}};

}  // namespace

extern const Verb kCompletion, kManual;
const Verb kCompletion{.name = "completion",
                       .summary = "Prints a completion script for a shell",
                       .flags = kCompletionFlags,
                       .examples = "  source <(bora completion bash)\n",
                       .run = completion};
const Verb kManual{.name = "manual",
                   .summary = "Prints the manual page",
                   .flags = {},
                   .examples = "  bora manual | man -l -\n",
                   .run = manual};

}  // namespace bora::app
