// The golden vectors of the reference library: whole tokenizers and streaming decode.
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <map>

#include "text/tokenizer/fixture_files.h"
#include "text/tokenizer/gguf_file_for_test.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

using testing::fixture_root;

constexpr const char* kNames[] = {"qwen3",        "gptoss",          "deepseek_v3", "llama3_1",     "minilm",
                                  "smollm2",      "llama_spm",       "gemma3",      "t_bert",       "t_bert_cased",
                                  "t_bytelevel",  "t_bytelevel_nfc", "t_clip",      "t_csp",        "t_gemma",
                                  "t_gpt2",       "t_llama2",        "t_llama2_ms", "t_nofallback", "t_t5",
                                  "t_unigram_bf", "t_wordlevel",     "t_wp_plain",  "t_xlmr"};

std::string sha256(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (unsigned char b : digest) {
    static constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[b >> 4];
    hex += kDigits[b & 15];
  }
  return hex;
}

// Null when the vocabulary is not at hand; `why` then names what is missing.
std::unique_ptr<Tokenizer> load(const std::string& name, std::string* why) {
  if (name == "gemma3") return testing::gemma3_from_gguf(why);
  std::string text = testing::tokenizer_json(name);
  if (text.empty()) {
    *why = name + ".tokenizer.json";
    return nullptr;
  }
  auto t = tokenizer_from_json(text, "");
  EXPECT_TRUE(t.ok()) << name << ": " << t.status().message();
  return t.ok() ? std::move(t).value() : nullptr;
}

std::string input_of(const Json& row) {
  if (const Json* b64 = row.find("bytes_b64")) {
    std::string bytes;
    EXPECT_TRUE(decode_base64(b64->as_string(), &bytes));
    return bytes;
  }
  if (const Json* repeat = row.find("text_repeat")) {
    std::string text;
    for (const Json& part : repeat->items()) {
      for (int64_t i = 0; i < part.items()[1].as_int(); ++i) text += part.items()[0].as_string();
    }
    return text;
  }
  return row.find("text")->as_string();
}

std::vector<TokenId> expected_ids(const Json& row) {
  if (const Json* ids = row.find("ids")) return testing::ids_of(*ids);
  std::vector<TokenId> ids;
  for (const Json& run : row.find("ids_rle")->items()) {
    ids.insert(ids.end(), run.items()[1].as_int(), static_cast<TokenId>(run.items()[0].as_int()));
  }
  return ids;
}

void check_decoded(const Tokenizer& t, const Json& row, const std::vector<TokenId>& ids) {
  for (bool skip : {false, true}) {
    std::string key = skip ? "decoded_skip_special" : "decoded";
    std::string got = t.decode(ids, {skip});
    if (const Json* want = row.find(key)) {
      EXPECT_EQ(got, want->as_string()) << row.find("id")->as_string() << " skip " << skip;
    } else {
      EXPECT_EQ(sha256(got), row.find(key + "_sha256")->as_string())
          << row.find("id")->as_string() << " skip " << skip;
    }
  }
}

// Compares the lines of a file; gives the number that differ.
size_t compare_lines(const Tokenizer& t, const std::string& name, const std::vector<std::string>& lines,
                     uint64_t seed) {
  size_t failed = 0;
  size_t run = 0;
  for (size_t i : testing::pick(lines.size(), seed)) {
    auto row = Json::parse(lines[i]);
    EXPECT_TRUE(row.ok());
    if (!row.ok()) return lines.size();
    std::vector<TokenId> ids;
    t.encode(input_of(*row), {row->find("add_special")->as_bool(), true}, &ids);
    auto want = expected_ids(*row);
    ++run;
    bool same = ids == want;
    if (!same && ++failed <= 5) {
      EXPECT_EQ(ids, want) << name << " " << row->find("id")->as_string() << ": " << input_of(*row);
    }
    check_decoded(t, *row, want);
  }
  std::printf("  %s: %zu of %zu lines equal\n", name.c_str(), run - failed, run);
  return failed;
}

class TokFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(TokFixture, IdsAndTextEqualTheReference) {
  std::string name = GetParam();
  auto path = fixture_root() / "fixtures/text/tok" / (name + ".jsonl.xz");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "fixture tok/" << name << ".jsonl.xz is absent";
  std::string why;
  auto t = load(name, &why);
  if (!t && !why.empty()) GTEST_SKIP() << "vocabulary is absent: " << why;
  ASSERT_TRUE(t);
  auto lines = testing::lines_of(testing::read_xz(path));
  ASSERT_EQ(lines.size(), 450u);
  EXPECT_EQ(compare_lines(*t, name, lines, testing::test_seed() + std::hash<std::string>()(name)), 0u);
}

// The same vocabulary read from the model file that ships it.
TEST(GgufFixture, SmolLm2FromItsModelFile) {
  auto path = fixture_root() / "fixtures/text/tok/smollm2.jsonl.xz";
  std::string why;
  auto t = testing::smollm2_from_gguf(&why);
  if (!std::filesystem::exists(path)) why = "fixture tok/smollm2.jsonl.xz";
  if (!t || !why.empty()) GTEST_SKIP() << why << " is absent";
  EXPECT_EQ(compare_lines(*t, "smollm2 from GGUF", testing::lines_of(testing::read_xz(path)), testing::test_seed()),
            0u);
}

INSTANTIATE_TEST_SUITE_P(All, TokFixture, ::testing::ValuesIn(kNames),
                         [](const auto& info) { return std::string(info.param); });

// Gives true when the row's pieces and tail come out as listed.
void check_stream(const Tokenizer& t, const Json& row, const std::string& line) {
  std::vector<TokenId> prompt;
  if (const Json* p = row.find("prompt_ids")) prompt = testing::ids_of(*p);
  bool skip = row.find("skip_special")->as_bool();
  auto stream = t.stream({skip}, prompt);
  std::string all;
  const Json* pieces = row.find("pieces");
  auto ids = testing::ids_of(*row.find("ids"));
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string piece;
    auto copy = stream->clone();
    stream->push(ids[i], &piece);
    std::string again;
    copy->push(ids[i], &again);
    EXPECT_EQ(piece, again) << "clone differs: " << line;
    if (pieces) {
      EXPECT_EQ(piece, pieces->items()[i].as_string()) << "piece " << i << " of " << line;
    }
    EXPECT_TRUE(utf8_valid(piece));
    all += piece;
  }
  std::string tail;
  stream->finish(&tail);
  if (pieces) {
    EXPECT_EQ(tail, row.find("tail")->as_string()) << line;
  }
  EXPECT_EQ(all + tail, row.find("text")->as_string()) << line;
}

TEST(StreamFixture, PiecesEqualTheReference) {
  auto path = fixture_root() / "fixtures/text/stream.jsonl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "fixture stream.jsonl is absent";
  auto lines = testing::lines_of(testing::read_file(path));
  ASSERT_EQ(lines.size(), 1336u);
  std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  size_t run = 0;
  size_t skipped = 0;
  for (size_t i : testing::pick(lines.size(), testing::test_seed())) {
    auto row = Json::parse(lines[i]);
    ASSERT_TRUE(row.ok());
    std::string name = row->find("tokenizer")->as_string();
    if (!loaded.count(name)) {
      std::string why;
      loaded[name] = load(name, &why);
      if (!loaded[name]) std::printf("  vocabulary of %s is absent: %s\n", name.c_str(), why.c_str());
    }
    if (!loaded[name]) {
      ++skipped;
      continue;
    }
    check_stream(*loaded[name], *row, lines[i]);
    ++run;
  }
  std::printf("  stream: %zu lines, %zu without their vocabulary\n", run, skipped);
  EXPECT_GT(run, 0u);
}

}  // namespace
}  // namespace bora::text
