// Against Jinja2 on random templates: the cases come from differential.py, by hand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/json.h"
#include "text/template/template.h"

namespace bora::text {
namespace {

TEST(Differential, RandomTemplates) {
  const char* path = std::getenv("BORA_TEMPLATE_CASES");
  if (path == nullptr) GTEST_SKIP() << "BORA_TEMPLATE_CASES (made by differential.py)";
  std::ifstream in(path);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const auto head = Json::parse(line);
  ASSERT_TRUE(head.ok());
  const Json& context = *head->find("context");
  size_t all = 0, wrong = 0;
  while (std::getline(in, line)) {
    const auto c = Json::parse(line);
    if (!c.ok()) continue;  // lone surrogates
    ++all;
    const std::string& source = c->find("template")->as_string();
    const Json* want = c->find("text");
    Rendered out;
    RenderError error;
    const auto t = parse_template(source, {});
    const bool ok = t.ok() && (*t)->render(context, {}, &out, &error);
    if (ok == (want != nullptr) && (!ok || out.prompt.text == want->as_string())) continue;
    const std::string got =
        ok ? out.prompt.text : "error " + std::string(t.ok() ? error.status.message() : t.status().message());
    if (++wrong <= 40) {
      ADD_FAILURE() << source << "\n  want "
                    << (want != nullptr ? want->as_string() : "error " + c->find("error")->as_string()) << "\n  got  "
                    << got;
    }
  }
  std::printf("differential: %zu / %zu\n", all - wrong, all);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace bora::text
