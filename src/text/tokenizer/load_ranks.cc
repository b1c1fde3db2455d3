// Rank files: tiktoken's "base64 rank" lines and tekken.json.
//
// A token's rank is its place in the merge order: of two neighbours whose joint bytes are a token, those of lowest
// rank are joined first. A piece that is a token as a whole is that token.
#include <algorithm>
#include <charconv>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pipeline.h"

namespace bora::text {
namespace {

struct RankedToken {
  TokenId id;
  std::string bytes;
};

// `tokens` in order of rank.
Result<std::unique_ptr<BpeModel>> ranked_model(const std::vector<RankedToken>& tokens) {
  Vocab vocab;
  vocab.reserve(tokens.size() + 1024, tokens.size() * 8);
  for (const RankedToken& t : tokens) {
    if (t.bytes.empty()) return invalid_argument("ranks: the token of id " + std::to_string(t.id) + " is empty");
    if (!vocab.add(t.id, t.bytes, false))
      return invalid_argument("ranks: id " + std::to_string(t.id) + " is taken or too large");
  }
  BpeConfig config;
  config.raw_bytes = true;
  config.ignore_merges = true;
  auto model = std::make_unique<BpeModel>(std::move(vocab), std::move(config));
  model->reserve_merges(tokens.size() * 2);
  const Vocab& index = model->vocab();
  for (const RankedToken& t : tokens) {
    bool first = true;
    std::string_view text = t.bytes;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      TokenId left = index.find(text.substr(0, cut));
      TokenId right = left < 0 ? -1 : index.find(text.substr(cut));
      if (right < 0) continue;
      BORA_TRY(first ? model->add_merge(left, right, t.id) : model->add_equal_merge(left, right));
      first = false;
    }
  }
  BORA_TRY(model->finish());
  return model;
}

Result<TokenizerParts> ranked_parts(const std::vector<RankedToken>& tokens, std::string_view pattern) {
  TokenizerParts parts;
  BORA_ASSIGN(parts.pre_tokenizer, make_regex_split(pattern));
  parts.tail = {true, false};
  BORA_ASSIGN(parts.model, ranked_model(tokens));
  Json decoder = Json::object();
  decoder.set("type", "ByteLevel");
  BORA_ASSIGN(parts.decoder, Decoder::from_json(decoder));
  return parts;
}

AddedToken special_token(TokenId id, std::string text, bool control) {
  AddedToken a;
  a.id = id;
  a.content = std::move(text);
  a.special = control;
  return a;
}

// What tekken files without a "special_tokens" list mean by their first ids.
constexpr std::string_view kTekkenSpecials[] = {"<unk>",
                                                "<s>",
                                                "</s>",
                                                "[INST]",
                                                "[/INST]",
                                                "[AVAILABLE_TOOLS]",
                                                "[/AVAILABLE_TOOLS]",
                                                "[TOOL_RESULTS]",
                                                "[/TOOL_RESULTS]",
                                                "[TOOL_CALLS]",
                                                "[IMG]",
                                                "<pad>",
                                                "[IMG_BREAK]",
                                                "[IMG_END]",
                                                "[PREFIX]",
                                                "[MIDDLE]",
                                                "[SUFFIX]",
                                                "[SYSTEM_PROMPT]",
                                                "[/SYSTEM_PROMPT]",
                                                "[TOOL_CONTENT]"};

Result<std::vector<AddedToken>> tekken_specials(const Json& root, int64_t count) {
  std::vector<AddedToken> added;
  std::vector<bool> taken(static_cast<size_t>(count));
  const Json* list = root.find("special_tokens");
  if (list && !list->is_null()) {
    if (!list->is_array()) return wrong_field("special_tokens", "an array");
    for (const Json& item : list->items()) {
      BORA_ASSIGN(int64_t rank, int_field(item, "rank"));
      BORA_ASSIGN(std::string text, string_field(item, "token_str"));
      if (rank < 0 || rank >= count)
        return invalid_argument("special_tokens: rank of \"" + text + "\" is out of range");
      taken[static_cast<size_t>(rank)] = true;
      added.push_back(special_token(static_cast<TokenId>(rank), std::move(text), true));
    }
  } else {
    for (size_t i = 0; i < std::size(kTekkenSpecials) && i < taken.size(); ++i) {
      taken[i] = true;
      added.push_back(special_token(static_cast<TokenId>(i), std::string(kTekkenSpecials[i]), true));
    }
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i])
      added.push_back(special_token(static_cast<TokenId>(i), "<SPECIAL_" + std::to_string(i) + ">", true));
  }
  return added;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_tiktoken(std::string_view ranks, std::string_view pattern,
                                                           std::span<const SpecialToken> special) {
  std::vector<RankedToken> tokens;
  for (size_t line = 1; !ranks.empty(); ++line) {
    size_t end = std::min(ranks.find('\n'), ranks.size());
    std::string_view row = ranks.substr(0, end);
    ranks.remove_prefix(std::min(end + 1, ranks.size()));
    if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
    if (row.empty()) continue;
    size_t space = row.find(' ');
    RankedToken t;
    std::string_view number = space == std::string_view::npos ? std::string_view() : row.substr(space + 1);
    auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), t.id);
    if (number.empty() || error != std::errc() || stop != number.data() + number.size() ||
        !decode_base64(row.substr(0, space), &t.bytes)) {
      return data_loss("rank file, line " + std::to_string(line) + ": not \"base64 rank\"");
    }
    tokens.push_back(std::move(t));
  }
  std::sort(tokens.begin(), tokens.end(), [](const RankedToken& a, const RankedToken& b) { return a.id < b.id; });
  BORA_ASSIGN(TokenizerParts parts, ranked_parts(tokens, pattern));
  for (const SpecialToken& s : special) {
    if (parts.model->vocab().has(s.id))
      return invalid_argument("special token \"" + s.text + "\": its id is an ordinary token's");
    parts.added.push_back(special_token(s.id, s.text, true));
  }
  return make_tokenizer(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> tokenizer_from_tekken(std::string_view tekken_json) {
  BORA_ASSIGN_CONTEXT(Json root, Json::parse(tekken_json), "tekken.json");
  const Json* config = root.find("config");
  if (!config || !config->is_object()) return wrong_field("config", "an object");
  BORA_ASSIGN(std::string pattern, string_field(*config, "pattern"));
  BORA_ASSIGN(int64_t size, int_field(*config, "default_vocab_size"));
  BORA_ASSIGN(int64_t specials, int_field(*config, "default_num_special_tokens"));
  BORA_ASSIGN(const Json* vocab, array_field(root, "vocab"));
  if (specials < 0 || size < specials || size > Vocab::kMaxId)
    return wrong_field("default_vocab_size", "at least the specials");
  std::vector<RankedToken> tokens;
  for (const Json& item : vocab->items()) {
    BORA_ASSIGN(int64_t rank, int_field(item, "rank"));
    BORA_ASSIGN(std::string text, string_field(item, "token_bytes"));
    if (rank < 0) return wrong_field("rank", "at least 0");
    if (rank >= size - specials) continue;  // beyond the vocabulary that the model uses
    RankedToken t{static_cast<TokenId>(rank + specials), {}};
    if (!decode_base64(text, &t.bytes)) return data_loss("tekken.json: token_bytes of rank " + std::to_string(rank));
    tokens.push_back(std::move(t));
  }
  std::sort(tokens.begin(), tokens.end(), [](const RankedToken& a, const RankedToken& b) { return a.id < b.id; });
  BORA_ASSIGN(TokenizerParts parts, ranked_parts(tokens, pattern));
  BORA_ASSIGN(parts.added, tekken_specials(root, specials));
  auto id_of = [&](std::string_view text) {
    for (const AddedToken& a : parts.added) {
      if (a.content == text) return a.id;
    }
    return TokenId{-1};
  };
  parts.special = {id_of("<s>"), id_of("</s>"), id_of("<unk>"), id_of("<pad>")};
  if (parts.special.bos >= 0) parts.post_processor = make_surround({parts.special.bos}, {});
  return make_tokenizer(std::move(parts));
}

}  // namespace bora::text
