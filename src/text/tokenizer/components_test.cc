// components.jsonl: one normalizer, pre-tokenizer, decoder or post-processor at a time.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "text/tokenizer/decoder.h"
#include "text/tokenizer/fixture_files.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

using testing::fixture_root;

std::string spec_text(const Json& row, const std::string& charsmap) {
  std::string text = row.find("spec")->dump();
  size_t at = text.find("\"@charsmap\"");
  if (at != std::string::npos) text.replace(at, 11, "\"" + charsmap + "\"");
  return text;
}

void check_normalizer(const Json& spec, const Json& row) {
  auto n = normalizer_from_json(spec);
  ASSERT_TRUE(n.ok()) << n.status().message();
  std::string in = row.find("input")->as_string();
  std::string out;
  if (!*n || !(*n)->apply(in, &out)) out = in;
  EXPECT_EQ(out, row.find("output")->as_string()) << row.dump();
}

void check_pre_tokenizer(const Json& spec, const Json& row) {
  auto p = pretokenizer_from_json(spec, nullptr);
  ASSERT_TRUE(p.ok()) << p.status().message();
  PreText t;
  t.text = row.find("input")->as_string();
  t.reset(true);
  uint32_t at = 0;
  for (size_t pos = 0; pos < t.text.size(); ++at) {
    size_t n = utf8_length(static_cast<uint8_t>(t.text[pos]));
    t.origin.resize(pos + n, {at, at + 1});
    pos += n;
  }
  if (*p) (*p)->apply(&t);
  Json got = Json::array();
  for (PreText::Piece piece : t.pieces) {
    got.push_back(Json::array({Json(t.text.substr(piece.begin, piece.end - piece.begin)),
                               Json(static_cast<int64_t>(t.origin[piece.begin].first)),
                               Json(static_cast<int64_t>(t.origin[piece.end - 1].second))}));
  }
  EXPECT_EQ(got.dump(), row.find("output")->dump()) << row.dump();
}

void check_decoder(const Json& spec, const Json& row) {
  auto d = Decoder::from_json(spec);
  ASSERT_TRUE(d.ok()) << d.status().message();
  std::vector<std::string> tokens;
  for (const Json& v : row.find("input")->items()) tokens.push_back(v.as_string());
  EXPECT_EQ(d->decode(tokens), row.find("output")->as_string()) << row.dump();
}

std::vector<TokenId> words(const std::string& text) {
  static const char* const kWords[] = {"[UNK]", "<s>", "</s>", "[CLS]", "[SEP]", "a", "b", "c", "d"};
  std::vector<TokenId> ids;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    TokenId id = 0;
    for (int i = 0; i < 9; ++i) {
      if (word == kWords[i]) id = i;
    }
    ids.push_back(id);
  }
  return ids;
}

void check_post_processor(const Json& spec, const Json& row) {
  auto p = post_processor_from_json(spec);
  ASSERT_TRUE(p.ok()) << p.status().message();
  const auto& in = row.find("input")->items();
  std::vector<TokenId> first = words(in[0].as_string());
  std::vector<TokenId> second = in.size() > 1 ? words(in[1].as_string()) : std::vector<TokenId>();
  Encoded e = (*p)->process(first, in.size() > 1 ? &second : nullptr);
  Json got = Json::object();
  Json lists[3] = {Json::array(), Json::array(), Json::array()};
  for (size_t i = 0; i < e.ids.size(); ++i) {
    lists[0].push_back(Json(e.ids[i]));
    lists[1].push_back(Json(int{e.types[i]}));
    lists[2].push_back(Json(int{e.special[i]}));
  }
  got.set("ids", lists[0]);
  got.set("type_ids", lists[1]);
  got.set("special_mask", lists[2]);
  EXPECT_EQ(got.dump(), row.find("output")->dump()) << row.dump();
}

TEST(ComponentFixture, EveryLineEqualsTheReference) {
  auto path = fixture_root() / "fixtures/text/components.jsonl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "fixture components.jsonl is absent";
  std::string charsmap = testing::read_file(fixture_root() / "fixtures/text/tokenizers/charsmap_nmt_nfkc.b64");
  auto lines = testing::lines_of(testing::read_file(path));
  ASSERT_EQ(lines.size(), 1076u);
  const std::map<std::string, void (*)(const Json&, const Json&)> checks = {{"normalizer", check_normalizer},
                                                                            {"pre_tokenizer", check_pre_tokenizer},
                                                                            {"decoder", check_decoder},
                                                                            {"post_processor", check_post_processor}};
  for (const std::string& line : lines) {
    auto row = Json::parse(line);
    ASSERT_TRUE(row.ok());
    auto spec = Json::parse(spec_text(*row, charsmap));
    ASSERT_TRUE(spec.ok());
    checks.at(row->find("kind")->as_string())(*spec, *row);
  }
}

}  // namespace
}  // namespace bora::text
