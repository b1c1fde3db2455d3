// SentencePiece vocabularies as a pipeline.
//
// A BPE model of SentencePiece merges the neighbours whose joint token has the highest score. As a merge list that
// is: every way to cut a token into two tokens, sorted by the token's score (then by longer left side, then by longer
// right side), which is also how the reference library converts such models.
#include "text/tokenizer/scored.h"

#include <algorithm>
#include <tuple>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/unigram.h"

namespace bora::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

struct Merge {
  float score;
  uint32_t left_chars;
  uint32_t right_chars;
  TokenId left;
  TokenId right;
  TokenId merged;
};

bool joins(PieceType type) { return type == PieceType::kNormal || type == PieceType::kUserDefined; }

std::vector<Merge> merges_of(const ScoredVocab& vocab, const Vocab& index) {
  std::vector<Merge> merges;
  merges.reserve(vocab.tokens.size() * 2);
  std::vector<Merge> local;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    std::string_view text = vocab.tokens[id];
    if (!joins(vocab.types[id]) || text.size() < 2 || index.find(text) != static_cast<TokenId>(id)) continue;
    local.clear();
    uint32_t chars = static_cast<uint32_t>(utf8_count(text));
    uint32_t before = 0;
    for (size_t pos = 0; pos < text.size();) {
      utf8_next(text.data(), &pos);
      if (++before == chars) break;
      TokenId left = index.find(text.substr(0, pos));
      if (left < 0 || !joins(vocab.types[left])) continue;
      TokenId right = index.find(text.substr(pos));
      if (right < 0 || !joins(vocab.types[right])) continue;
      local.push_back({vocab.scores[id], before, chars - before, left, right, static_cast<TokenId>(id)});
    }
    std::sort(local.begin(), local.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
    merges.insert(merges.end(), local.begin(), local.end());
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_chars != b.left_chars) return a.left_chars > b.left_chars;
    if (a.right_chars != b.right_chars) return a.right_chars > b.right_chars;
    return std::tuple(a.merged, a.left, a.right) < std::tuple(b.merged, b.left, b.right);
  });
  return merges;
}

Result<std::unique_ptr<Model>> bpe_model(const ScoredVocab& vocab, Vocab index, const SentencePieceRules& rules) {
  BpeConfig config;
  config.byte_fallback = rules.byte_fallback;
  config.fuse_unk = true;
  if (rules.unk >= 0) config.unk_token = std::string(vocab.tokens[rules.unk]);
  std::vector<Merge> merges = merges_of(vocab, index);
  auto model = std::make_unique<BpeModel>(std::move(index), std::move(config));
  model->reserve_merges(merges.size());
  for (const Merge& m : merges) BORA_TRY(model->add_merge(m.left, m.right, m.merged));
  BORA_TRY(model->finish());
  return std::unique_ptr<Model>(std::move(model));
}

std::unique_ptr<Model> unigram_model(const ScoredVocab& vocab, Vocab index, const SentencePieceRules& rules) {
  std::vector<double> scores(vocab.scores.begin(), vocab.scores.end());
  std::vector<bool> matched(vocab.tokens.size());
  // The score of an unknown character hangs on the lowest score of a normal token; others must not pull it down.
  double lowest = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    matched[i] = joins(vocab.types[i]);
    if (matched[i]) lowest = std::min(lowest, scores[i]);
  }
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = std::max(scores[i], lowest);
  UnigramConfig config;
  config.unk_id = rules.unk;
  config.byte_fallback = rules.byte_fallback;
  return std::make_unique<UnigramModel>(std::move(index), std::move(scores), matched, config);
}

Json replace_step(std::string_view from, std::string_view to) {
  Json pattern = Json::object();
  pattern.set("String", from);
  Json step = Json::object();
  step.set("type", "Replace");
  step.set("pattern", pattern);
  step.set("content", to);
  return step;
}

Json named_step(std::string_view type) {
  Json step = Json::object();
  step.set("type", type);
  return step;
}

Result<Decoder> decoder_of(const SentencePieceRules& rules) {
  Json steps = Json::array();
  if (rules.escape_whitespaces) steps.push_back(replace_step(kSpaceMark, " "));
  if (rules.byte_fallback) steps.push_back(named_step("ByteFallback"));
  steps.push_back(named_step("Fuse"));
  if (rules.add_dummy_prefix) {
    Json strip = named_step("Strip");
    strip.set("content", " ");
    strip.set("start", 1);
    strip.set("stop", 0);
    steps.push_back(strip);
  }
  Json all = named_step("Sequence");
  all.set("decoders", steps);
  return Decoder::from_json(all);
}

Result<std::unique_ptr<Normalizer>> normalizer_of(const SentencePieceRules& rules) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (!rules.charsmap.empty()) {
    BORA_ASSIGN(auto map, make_charsmap(rules.charsmap, true));
    steps.push_back(std::move(map));
  }
  if (rules.remove_extra_whitespaces) steps.push_back(make_squeeze_spaces());
  std::string space = rules.escape_whitespaces ? std::string(kSpaceMark) : " ";
  if (rules.add_dummy_prefix) steps.push_back(make_prepend(space));
  if (rules.escape_whitespaces) steps.push_back(make_replace_string(" ", space));
  if (steps.empty()) return std::unique_ptr<Normalizer>();
  return make_sequence(std::move(steps));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_scored_tokenizer(const ScoredVocab& vocab, SentencePieceRules rules) {
  size_t count = vocab.tokens.size();
  auto in = [&](TokenId id) { return id < static_cast<TokenId>(count); };
  if (!in(rules.unk)) return invalid_argument("vocabulary: the unknown token's id is out of range");
  Vocab index;
  index.reserve(count, count * 8);
  TokenizerParts parts;
  for (size_t i = 0; i < count; ++i) {
    auto id = static_cast<TokenId>(i);
    if (!utf8_valid(vocab.tokens[i]))
      return invalid_argument("vocabulary: token " + std::to_string(i) + " is not UTF-8");
    if (!index.add(id, vocab.tokens[i], false)) return invalid_argument("vocabulary: more than 2097150 tokens");
    bool special = vocab.types[i] == PieceType::kControl || vocab.types[i] == PieceType::kUnknown || id == rules.unk;
    if (!special && vocab.types[i] != PieceType::kUserDefined) continue;
    AddedToken a;
    a.id = id;
    a.content = std::string(vocab.tokens[i]);
    a.special = special;
    parts.added.push_back(std::move(a));
  }
  BORA_ASSIGN(parts.normalizer, normalizer_of(rules));
  BORA_ASSIGN(parts.decoder, decoder_of(rules));
  if (rules.unigram) {
    parts.model = unigram_model(vocab, std::move(index), rules);
  } else {
    BORA_ASSIGN(parts.model, bpe_model(vocab, std::move(index), rules));
  }
  parts.special = rules.special;
  if (!rules.before.empty() || !rules.after.empty()) {
    parts.post_processor = make_surround(std::move(rules.before), std::move(rules.after));
  }
  if (rules.escape_whitespaces) parts.text_rules.space = std::string(kSpaceMark);
  parts.text_rules.byte_tokens = rules.byte_fallback;
  return make_tokenizer(std::move(parts));
}

}  // namespace bora::text
