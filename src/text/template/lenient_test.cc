// Provenance, limits, hostile input and the lenient mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "text/template/template.h"

namespace bora::text {
namespace {

std::string fixture_dir() {
  const char* env = std::getenv("BORA_FIXTURES");
  return std::string(env != nullptr ? env : BORA_SOURCE_DIR "/../shared") + "/fixtures/text";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

std::vector<std::filesystem::path> template_files() {
  std::vector<std::filesystem::path> files;
  std::error_code ec;
  for (const auto& e : std::filesystem::directory_iterator(fixture_dir() + "/templates", ec)) {
    if (e.path().extension() == ".jinja") files.push_back(e.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Json json(std::string_view text) {
  auto j = Json::parse(text);
  EXPECT_TRUE(j.ok()) << j.status().to_string() << "\n" << text;
  return j.ok() ? *std::move(j) : Json();
}

struct Outcome {
  bool ok;
  Rendered out;
  RenderError error;
};

Outcome render(std::string_view source, const Json& context, RenderOptions options = {}) {
  Outcome o{};
  auto t = parse_template(source, options.limits);
  if (!t.ok()) {
    o.error.status = t.status();
    return o;
  }
  o.ok = (*t)->render(context, options, &o.out, &o.error);
  return o;
}

std::string marked(std::string_view source, const Json& context) {
  const Outcome o = render(source, context);
  if (!o.ok) return "error: " + std::string(o.error.status.message());
  std::string s;
  size_t at = 0;
  for (const SpanText::Run& r : o.out.prompt.runs) {
    const std::string part = o.out.prompt.text.substr(at, r.end - at);
    s += r.from_template ? part : "⟨" + part + "⟩";
    at = r.end;
  }
  return s;
}

TEST(Provenance, TravelsThroughEverything) {
  const Json c = json(R"({"x": "a-B", "l": ["p", "q"], "d": {"k": "v\"w"}})");
  EXPECT_EQ(marked("<{{ x }}>", c), "<⟨a-B⟩>");
  EXPECT_EQ(marked("{{ '<' + x + '>' }}", c), "<⟨a-B⟩>");
  EXPECT_EQ(marked("{{ '<' ~ x ~ 1 ~ '>' }}", c), "<⟨a-B⟩1>");
  EXPECT_EQ(marked("{{ ('<' + x + '>') | upper }}", c), "<⟨A-B⟩>");
  EXPECT_EQ(marked("{{ ('<' + x + '>')[1:3] }}", c), "⟨a-⟩");
  EXPECT_EQ(marked("{{ ('<' + x + '>')[::-1] }}", c), ">⟨B-a⟩<");
  EXPECT_EQ(marked("{{ ('<' + x + '>').split('-') | join('/') }}", c), "<⟨a⟩/⟨B⟩>");
  EXPECT_EQ(marked("{{ ('<' + x + '>').replace('-', '+') }}", c), "<⟨a⟩+⟨B⟩>");
  EXPECT_EQ(marked("{{ x.replace('-', '+') }}", c), "⟨a⟩+⟨B⟩");
  EXPECT_EQ(marked("{{ l }}", c), "['⟨p⟩', '⟨q⟩']");
  EXPECT_EQ(marked("{{ d | tojson }}", c), "{\"⟨k⟩\": \"⟨v\\\"w⟩\"}");
  EXPECT_EQ(marked("{{ '%s|%5s' | format(x, 'b') }}", c), "⟨a-B⟩|    b");
  EXPECT_EQ(marked("{{ '{}|{k}'.format(x, k='b') }}", c), "⟨a-B⟩|b");
  EXPECT_EQ(marked("{{ ('[' ~ x ~ ']') | trim('[]') | indent(2, true) }}", c), "  ⟨a-B⟩");
  EXPECT_EQ(marked("{% set b %}[{{ x }}]{% endset %}{{ b }}", c), "[⟨a-B⟩]");
  EXPECT_EQ(marked("{% macro m(v) %}[{{ v }}]{% endmacro %}{{ m(x) }}", c), "[⟨a-B⟩]");
  EXPECT_EQ(marked("{% for ch in x %}{{ ch }}.{% endfor %}", c), "⟨a⟩.⟨-⟩.⟨B⟩.");
  EXPECT_EQ(marked("{{ bos_token }}{{ x }}", json(R"({"bos_token": "<s>", "x": "y"})")), "<s>⟨y⟩");
  EXPECT_EQ(
      marked(
          "{% set ns = namespace(t='') %}{% for v in l %}{% set ns.t = ns.t + '<' + v + '>' %}{% endfor %}{{ ns.t }}",
          c),
      "<⟨p⟩><⟨q⟩>");
}

// Marker-like words of a template: what its model may hold as special tokens.
std::set<std::string> markers_of(const std::string& source) {
  std::set<std::string> found = {"<s>", "</s>", "<|endoftext|>", "<bos>", "[INST]"};
  const auto scan = [&](std::string_view open, std::string_view close) {
    for (size_t at = source.find(open); at != std::string::npos; at = source.find(open, at + 1)) {
      const size_t end = source.find(close, at + open.size());
      if (end == std::string::npos || end - at > 40) continue;
      const std::string word = source.substr(at, end + close.size() - at);
      if (word.find_first_of(" \"'\\{}\n") == std::string::npos) found.insert(word);
    }
  };
  scan("<|", "|>");
  scan("<｜", "｜>");
  scan("[", "]");
  scan("<", ">");
  return found;
}

bool all_from(const SpanText& text, size_t begin, size_t end, bool from_template) {
  size_t at = 0;
  for (const SpanText::Run& r : text.runs) {
    if (at < end && r.end > begin && r.from_template != from_template) return false;
    at = r.end;
  }
  return true;
}

// Every template, every marker, in every field that a client writes.
TEST(Provenance, InjectedMarkersAreNeverTheTemplates) {
  const auto files = template_files();
  if (files.empty()) GTEST_SKIP() << "fixtures/text/templates";
  size_t checked = 0;
  for (const auto& file : files) {
    const std::string source = read_file(file);
    auto t = parse_template(source, {});
    ASSERT_TRUE(t.ok()) << file;
    size_t here = 0;
    for (const std::string& marker : markers_of(source)) {
      const std::string evil = "zq" + marker + "qz";
      std::string text = R"({"messages": [{"role": "system", "content": "EVIL"}, {"role": "user", "content": "EVIL"},
        {"role": "assistant", "content": "EVIL", "reasoning_content": "EVIL",
        "tool_calls": [{"id": "call00001", "type": "function",
        "function": {"name": "EVIL", "arguments": {"EVIL": "EVIL", "n": ["EVIL", {"k": "EVIL"}]}}}]},
        {"role": "tool", "content": "EVIL", "name": "EVIL", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "EVIL"},
        {"role": "user", "content": "EVIL"}], "tools": [{"type": "function", "function": {"name": "EVIL",
        "description": "EVIL",
        "parameters": {"type": "object", "description": "EVIL", "properties": {"EVIL": {"type": "string",
        "description": "EVIL",
        "enum": ["EVIL"]}}, "required": ["EVIL"]}}}], "documents": [{"title": "EVIL", "text": "EVIL"}],
        "custom_kwarg": "EVIL",
        "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})";
      for (size_t at = text.find("EVIL"); at != std::string::npos; at = text.find("EVIL", at + evil.size()))
        text.replace(at, 4, evil);
      Json context = json(text);
      for (const bool tools : {true, false}) {
        if (!tools) {  // for templates without a tool role
          context =
              json(R"({"messages": [{"role": "user", "content": "EVIL"}, {"role": "assistant", "content": "EVIL"},
            {"role": "user", "content": "EVIL"}], "bos_token": "<s>", "eos_token": "</s>"})");
          std::vector<Json> messages;
          for (const char* role : {"user", "assistant", "user"}) {
            Json m = Json::object();
            m.set("role", role);
            m.set("content", evil);
            messages.push_back(m);
          }
          context.set("messages", Json::array(messages));
        }
        RenderOptions options;
        options.mode = RenderOptions::Mode::kLenient;
        Rendered out;
        RenderError error;
        if (!(*t)->render(context, options, &out, &error)) continue;
        for (size_t at = out.prompt.text.find(evil); at != std::string::npos;
             at = out.prompt.text.find(evil, at + 1)) {
          ++here;
          EXPECT_TRUE(all_from(out.prompt, at, at + evil.size(), false)) << file << " " << marker << " at " << at;
        }
      }
    }
    EXPECT_GT(here, 0u) << file << ": nothing of the conversation came through";
    checked += here;
  }
  std::printf("injection: %zu templates, %zu injected markers checked\n", files.size(), checked);
}

// The template's own markers stay the template's, or no prompt would work.
TEST(Provenance, OwnMarkersAreTheTemplates) {
  const auto files = template_files();
  if (files.empty()) GTEST_SKIP() << "fixtures/text/templates";
  for (const auto& file : files) {
    const std::string source = read_file(file);
    const Json context =
        json(R"({"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"},
      {"role": "user", "content": "so"}], "add_generation_prompt": true, "bos_token": "<|bos|>",
        "eos_token": "<|eos|>"})");
    RenderOptions options;
    options.mode = RenderOptions::Mode::kLenient;
    const Outcome o = render(source, context, options);
    ASSERT_TRUE(o.ok) << file << o.error.status.to_string();
    for (const std::string_view open : {"<|", "<｜", "[INST", "<start_of_turn"}) {
      for (size_t at = o.out.prompt.text.find(open); at != std::string::npos;
           at = o.out.prompt.text.find(open, at + 1)) {
        const size_t end = std::min(o.out.prompt.text.find_first_of(">]", at), o.out.prompt.text.size() - 1) + 1;
        EXPECT_TRUE(all_from(o.out.prompt, at, end, true)) << file << ": " << o.out.prompt.text.substr(at, end - at);
      }
    }
  }
}

TEST(Limits, StepsDepthAndOutput) {
  const Json c = Json::object();
  RenderOptions small;
  small.limits.steps = 10'000;
  EXPECT_FALSE(render("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", c, small).ok);
  small = {};
  small.limits.output_bytes = 1000;
  EXPECT_FALSE(render("{{ 'x' * 1001 }}", c, small).ok);
  EXPECT_FALSE(render("{% for a in range(1000) %}xx{% endfor %}", c, small).ok);
  EXPECT_TRUE(render("{{ 'x' * 1000 }}", c, small).ok);
  EXPECT_FALSE(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", c).ok);
  EXPECT_FALSE(
      render("{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
             c)
          .ok);
  EXPECT_FALSE(render("{{ 2 ** 100000 }}", c).ok);
  EXPECT_FALSE(render("{{ '%999999999d' % 1 }}", c).ok);
  EXPECT_FALSE(render("{{ 'x'.center(99999999999) }}", c).ok);
  EXPECT_FALSE(
      render("{% set ns = namespace(t='x') %}{% for i in range(99) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}", c)
          .ok);
  EXPECT_FALSE(
      render("{% set ns = namespace(t=[1]) %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}", c)
          .ok);
  EXPECT_FALSE(render("{% set ns = namespace(t=(1,)) %}{% for i in range(40) %}{% set ns.t = (ns.t, ns.t) %}{% "
                      "endfor %}{{ {ns.t: 1} }}",
                      c)
                   .ok);
  EXPECT_FALSE(render("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
                      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
                      c)
                   .ok);
}

TEST(Limits, SourceThatNestsIsAnError) {
  for (const char* const open :
       {"(", "[", "{1:", "-", "not ", "{{ (", "x(", "x[", "1 if ", "{% if 1 %}", "{% for a in b %}", "x|d("}) {
    std::string source = open[0] == '{' && open[1] != '1' ? "" : "{{ ";
    for (int i = 0; i < 50'000; ++i) source += open;
    const auto t = parse_template(source, {});
    EXPECT_FALSE(t.ok()) << open;
  }
  // Long but flat is fine.
  std::string sum = "{{ 1", chain = "{{ x", logic = "{{ 1", elifs = "{% if 0 %}";
  for (int i = 0; i < 5'000; ++i) {
    sum += " + 1";
    logic += " and 1";
    elifs += "{% elif 0 %}";
  }
  EXPECT_TRUE(render(sum + " }}", Json::object()).ok);
  EXPECT_TRUE(render(logic + " }}", Json::object()).ok);
  EXPECT_TRUE(render(elifs + "{% endif %}", Json::object()).ok);
  for (int i = 0; i < 50'000; ++i) chain += ".a";
  EXPECT_FALSE(parse_template(chain + " }}", {}).ok());
}

TEST(Limits, SyntaxErrorsNameTheLine) {
  const auto t = parse_template("a\nb\n{% if x %}\n{{ 1 + }}\n", {});
  ASSERT_FALSE(t.ok());
  EXPECT_NE(t.status().message().find("line 4"), std::string::npos) << t.status().to_string();
}

TEST(Lenient, HandsTemplatesWhatTheyNeed) {
  const auto names = [](const Outcome& o) {
    std::string s;
    for (const std::string& n : o.out.adaptations) s += n + " ";
    return o.ok ? s : "error: " + std::string(o.error.status.message());
  };
  RenderOptions lenient;
  lenient.mode = RenderOptions::Mode::kLenient;
  const std::string loop = "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}";
  const Json text_call =
      json(R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "c", "tool_calls":
    [{"id": "call00001", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}]})");
  Outcome o = render(loop + "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}", text_call, lenient);
  EXPECT_EQ(names(o), "arguments-as-object ");
  EXPECT_EQ(o.out.prompt.text, "user:uassistant:c{\"a\": 1}");
  const Json object_call =
      json(R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "c", "tool_calls":
    [{"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}]})");
  o = render(loop + "{{ '' + c.function.arguments }}{% endfor %}{% endfor %}", object_call, lenient);
  EXPECT_EQ(names(o), "arguments-as-text ");
  EXPECT_EQ(o.out.prompt.text, "user:uassistant:c{\"a\": 1}");
  o = render("{% if tools is defined %}T{% for t in tools %}{% endfor %}{% endif %}.", json(R"({"messages": []})"),
             lenient);
  EXPECT_EQ(names(o), "absent-as-undefined ");
  EXPECT_EQ(o.out.prompt.text, ".");
  EXPECT_FALSE(
      render("{% if tools is defined %}T{% for t in tools %}{% endfor %}{% endif %}.", json(R"({"messages": []})"))
          .ok);
  const Json parts = json(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  o = render("{% for m in messages %}{{ m.content.strip() }}{% endfor %}", parts, lenient);
  EXPECT_EQ(names(o), "content-as-text ");
  EXPECT_EQ(o.out.prompt.text, "a\nb");
  o = render("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
             json(R"({"messages": [{"role": "user", "content": "plain"}]})"), lenient);
  EXPECT_EQ(names(o), "content-as-parts ");
  EXPECT_EQ(o.out.prompt.text, "plain");
  o = render(
      loop + "{{ c.function.arguments | tojson }}{% endfor %}{{ '' + m.content }}{% endfor %}",
      json(
          R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
        "arguments": {}}}]}]})"),
      lenient);
  EXPECT_EQ(names(o), "content-empty ");
  o = render("{% set l = [] %}{% set x = l.append(1) %}{{ l }}", json(R"({"messages": []})"), lenient);
  EXPECT_EQ(names(o), "mutable-values ");
  EXPECT_EQ(o.out.prompt.text, "[1]");
  o = render(
      "{% for m in messages %}{% if m.role not in ['user', 'system'] %}{{ raise_exception('no ' ~ m.role) }}{% endif "
      "%}{{ m.content }}{% endfor %}",
      json(R"({"messages": [{"role": "developer", "content": "d"}]})"), lenient);
  EXPECT_EQ(names(o), "developer-as-system ");
}

TEST(Shared, OneTemplateManyThreads) {
  auto t = parse_template("{% for m in messages %}{{ m.role | upper }}: {{ m.content | tojson }}\n{% endfor %}", {});
  ASSERT_TRUE(t.ok());
  EXPECT_TRUE((*t)->mentions("messages"));
  EXPECT_FALSE((*t)->mentions("tools"));
  const Json context = json(R"({"messages": [{"role": "user", "content": "é\n"}]})");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      RenderOptions options;
      options.mode = RenderOptions::Mode::kLenient;
      for (int k = 0; k < 100; ++k) {
        Rendered out;
        RenderError error;
        if ((*t)->render(context, options, &out, &error)) texts[i] = out.prompt.text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "USER: \"é\\n\"\n");
}

}  // namespace
}  // namespace bora::text
