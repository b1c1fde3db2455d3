// The golden vectors: jinja.jsonl (the language) and templates.jsonl (36 published chat templates), whole, in the
// strict mode.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"
#include "text/template/template.h"

namespace bora::text {
namespace {

std::string fixture_dir() {
  const char* env = std::getenv("BORA_FIXTURES");
  return std::string(env != nullptr ? env : BORA_SOURCE_DIR "/../shared") + "/fixtures/text";
}

bool read_file(const std::string& path, std::string* out) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  std::stringstream s;
  s << in.rdbuf();
  *out = s.str();
  return true;
}

Json parse(std::string_view text) {
  Result<Json> j = Json::parse(text);
  EXPECT_TRUE(j.ok()) << j.status().to_string();
  return j.ok() ? *std::move(j) : Json();
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(parse(line));
  return lines;
}

// What one case gave: the text, or the error with its mark.
struct Outcome {
  bool ok = false;
  std::string text;
  bool raised = false;
};

Outcome render(const Template& t, const Json& context) {
  RenderOptions options;
  options.now = {2026, 3, 9, 14, 5, 7};
  Rendered out;
  RenderError error;
  Outcome o;
  o.ok = t.render(context, options, &out, &error);
  o.text = o.ok ? out.prompt.text : std::string(error.status.message());
  o.raised = !o.ok && error.raised_by_template;
  if (o.ok) {  // runs cover the text, alternate and are not empty
    uint32_t at = 0;
    for (size_t i = 0; i < out.prompt.runs.size(); ++i) {
      EXPECT_GT(out.prompt.runs[i].end, at);
      const bool differs = i == 0 || out.prompt.runs[i].from_template != out.prompt.runs[i - 1].from_template;
      EXPECT_TRUE(differs) << i;
      at = out.prompt.runs[i].end;
    }
    EXPECT_EQ(at, out.prompt.text.size());
  }
  return o;
}

Outcome run(const std::string& source, const Json& context) {
  auto t = parse_template(source, {});
  if (!t.ok()) return {false, std::string(t.status().message()), false};
  return render(**t, context);
}

// Empty when the outcome is what the line expects.
std::string difference(const Json& line, const Outcome& got) {
  const Json* error = line.find("error");
  if (error == nullptr) {
    const std::string& want = line.find("text")->as_string();
    if (!got.ok) return "failed: " + got.text + "\n  wanted: " + want.substr(0, 200);
    if (got.text == want) return {};
    size_t at = 0;
    while (at < std::min(want.size(), got.text.size()) && want[at] == got.text[at]) ++at;
    const size_t from = at > 40 ? at - 40 : 0;
    return "differs at byte " + std::to_string(at) + "\n  wanted …" + want.substr(from, 120) + "\n  got    …" +
           got.text.substr(from, 120);
  }
  const bool raised = error->find("raised_by_template")->as_bool();
  if (got.ok)
    return "succeeded: " + got.text.substr(0, 200) + "\n  wanted error: " + error->find("message")->as_string();
  if (got.raised != raised) return "raised_by_template differs; got: " + got.text;
  // The file keeps 300 characters of a message.
  if (raised && got.text != error->find("message")->as_string()) return "message differs: " + got.text;
  return {};
}

TEST(Fixtures, Language) {
  std::string lines, inputs;
  if (!read_file(fixture_dir() + "/jinja.jsonl", &lines) ||
      !read_file(fixture_dir() + "/inputs/jinja.json", &inputs)) {
    GTEST_SKIP() << "fixtures/text/jinja.jsonl";
  }
  const Json conf = parse(inputs);
  size_t passed = 0, all = 0;
  for (const Json& line : lines_of(lines)) {
    Json context = *conf.find("context");
    if (const Json* extra = line.find("ctx")) {
      for (const auto& [k, v] : extra->members()) context.set(k, v);
    }
    const std::string source = line.find("template")->as_string();
    const std::string wrong = difference(line, run(source, context));
    ++all;
    passed += wrong.empty() ? 1 : 0;
    EXPECT_EQ(wrong, "") << "line id " << line.find("id")->as_int() << ": " << source;
  }
  EXPECT_EQ(all, 279u);
  std::printf("jinja.jsonl: %zu / %zu\n", passed, all);
}

TEST(Fixtures, Templates) {
  std::string lines, inputs;
  if (!read_file(fixture_dir() + "/templates.jsonl", &lines) ||
      !read_file(fixture_dir() + "/inputs/conversations.json", &inputs)) {
    GTEST_SKIP() << "fixtures/text/templates.jsonl";
  }
  const Json conf = parse(inputs);
  std::map<std::string, const Json*> conversations;
  for (const Json& c : conf.find("conversations")->items())
    conversations[c.find("id")->as_string()] = c.find("messages");
  std::map<std::string, std::shared_ptr<const Template>> templates;
  size_t passed = 0, all = 0;
  for (const Json& line : lines_of(lines)) {
    const std::string& name = line.find("template")->as_string();
    std::shared_ptr<const Template>& t = templates[name];
    if (t == nullptr) {
      std::string source;
      ASSERT_TRUE(read_file(fixture_dir() + "/templates/" + name + ".jinja", &source)) << name;
      auto parsed = parse_template(source, {});
      ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status().to_string();
      t = *std::move(parsed);
    }
    Json context = Json::object();
    const Json* tokens = conf.find("special_tokens")->find(name);
    if (tokens == nullptr) tokens = conf.find("special_tokens")->find("default");
    for (const auto& [k, v] : tokens->members()) context.set(k, v);
    context.set("messages", *conversations.at(line.find("conversation")->as_string()));
    for (const auto& [k, v] : line.find("options")->members()) {
      context.set(k, k == "tools" ? *conf.find("tools")->find(v.as_string()) : v);
    }
    const std::string wrong = difference(line, render(*t, context));
    ++all;
    passed += wrong.empty() ? 1 : 0;
    EXPECT_EQ(wrong, "") << name << " " << line.find("conversation")->as_string() << " "
                         << line.find("options")->dump();
  }
  EXPECT_EQ(all, 1332u);
  std::printf("templates.jsonl: %zu / %zu\n", passed, all);
}

}  // namespace
}  // namespace bora::text
