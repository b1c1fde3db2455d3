// The vocabulary of a GGUF file: one builder a value of tokenizer.ggml.model, in a list.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/gguf_pre.h"
#include "text/tokenizer/scored.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/word_models.h"

namespace bora::text {
namespace {

using TokenizerResult = Result<std::unique_ptr<Tokenizer>>;

constexpr int32_t kNormalType = 1;
constexpr int32_t kControlType = 3;
constexpr int32_t kUserDefinedType = 4;

// An id of the metadata; -1 when absent or out of range.
TokenId id_of(const GgufVocab& v, const std::optional<int64_t>& id) {
  return id && *id >= 0 && *id < static_cast<int64_t>(v.tokens.size()) ? static_cast<TokenId>(*id) : -1;
}

SpecialIds special_of(const GgufVocab& v) {
  return {id_of(v, v.bos), id_of(v, v.eos), id_of(v, v.unk), id_of(v, v.pad)};
}

int32_t type_of(const GgufVocab& v, size_t id) { return v.token_types.empty() ? kNormalType : v.token_types[id]; }

std::vector<AddedToken> added_of(const GgufVocab& v) {
  std::vector<AddedToken> added;
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    int32_t type = type_of(v, i);
    if (type != kControlType && type != kUserDefinedType) continue;
    AddedToken a;
    a.id = static_cast<TokenId>(i);
    a.content = std::string(v.tokens[i]);
    a.special = type == kControlType;
    added.push_back(std::move(a));
  }
  return added;
}

std::unique_ptr<PostProcessor> surround(const GgufVocab& v, bool bos_default, bool eos_default, TokenId bos,
                                        TokenId eos) {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  if (v.add_bos.value_or(bos_default) && bos >= 0) before.push_back(bos);
  if (v.add_eos.value_or(eos_default) && eos >= 0) after.push_back(eos);
  if (before.empty() && after.empty()) return nullptr;
  return make_surround(std::move(before), std::move(after));
}

struct BpeSource {
  Vocab vocab;
  std::vector<std::pair<TokenId, std::string>> extra;
};

// Control tokens stay out of the model, so that no text can become one by itself.
Result<BpeSource> bpe_vocab(const GgufVocab& v, bool raw, bool with_control) {
  BpeSource s;
  s.vocab.reserve(v.tokens.size(), v.tokens.size() * 8);
  std::string bytes;
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    auto id = static_cast<TokenId>(i);
    if (!utf8_valid(v.tokens[i]))
      return invalid_argument("tokenizer.ggml.tokens: token " + std::to_string(i) + " is not UTF-8");
    bytes.clear();
    if (!raw) bytes.assign(v.tokens[i]);
    if ((type_of(v, i) == kControlType && !with_control) || (raw && !append_from_alphabet(v.tokens[i], &bytes))) {
      s.extra.emplace_back(id, v.tokens[i]);
    } else if (!s.vocab.add(id, bytes, false)) {
      return invalid_argument("tokenizer.ggml.tokens: more than 2097150 tokens");
    }
  }
  return s;
}

// The model, or null when a merge names a token that the vocabulary does not hold (then *missing is that merge).
Result<std::unique_ptr<BpeModel>> bpe_from(const GgufVocab& v, BpeSource* source, BpeConfig config,
                                           std::string* missing) {
  bool raw = config.raw_bytes;
  auto model = std::make_unique<BpeModel>(std::move(source->vocab), std::move(config));
  model->reserve_merges(v.merges.size());
  std::string left;
  std::string right;
  for (std::string_view line : v.merges) {
    size_t space = line.find(' ', 1);
    if (space == std::string_view::npos)
      return invalid_argument("tokenizer.ggml.merges: \"" + std::string(line) + "\" is no pair");
    if (!utf8_valid(line)) return invalid_argument("tokenizer.ggml.merges: a line is not UTF-8");
    left.clear();
    right.clear();
    bool ok = true;
    if (raw) {
      ok = append_from_alphabet(line.substr(0, space), &left) && append_from_alphabet(line.substr(space + 1), &right);
    } else {
      left = line.substr(0, space);
      right = line.substr(space + 1);
    }
    TokenId a = ok ? model->vocab().find(left) : -1;
    TokenId b = ok ? model->vocab().find(right) : -1;
    TokenId merged = a >= 0 && b >= 0 ? model->merged_id(a, b, &left) : -1;
    if (merged < 0) {
      *missing = std::string(line);
      return std::unique_ptr<BpeModel>();
    }
    BORA_TRY(model->add_merge(a, b, merged));
  }
  BORA_TRY(model->finish());
  return model;
}

Status fill_bpe(const GgufVocab& v, const BpeConfig& config, TokenizerParts* parts) {
  for (bool with_control : {false, true}) {
    BORA_ASSIGN(BpeSource source, bpe_vocab(v, config.raw_bytes, with_control));
    std::string missing;
    BORA_ASSIGN(auto model, bpe_from(v, &source, config, &missing));
    if (model) {
      parts->extra_texts = std::move(source.extra);
      parts->model = std::move(model);
      return ok_status();
    }
    if (with_control) {
      return invalid_argument("tokenizer.ggml.merges: \"" + missing +
                              "\" uses or gives a token that is not in the vocabulary");
    }
  }
  return ok_status();
}

Result<std::unique_ptr<PreTokenizer>> pre_of(const GgufPre& pre) {
  std::vector<std::unique_ptr<PreTokenizer>> stages;
  for (std::string_view pattern : pre.stages) {
    if (pattern.empty()) {
      stages.push_back(make_digit_split());
    } else {
      BORA_ASSIGN(auto stage, make_regex_split(pattern));
      stages.push_back(std::move(stage));
    }
  }
  return make_pre_sequence(std::move(stages));
}

Json type_json(std::string_view type) {
  Json spec = Json::object();
  spec.set("type", type);
  return spec;
}

// BPE over text with "▁" for spaces and <0xXX> fallback, with a merge list.
TokenizerResult load_space_marked_bpe(const GgufVocab& v) {
  if (v.merges.empty()) return invalid_argument("tokenizer.ggml.merges is absent");
  TokenizerParts parts;
  BpeConfig config;
  config.byte_fallback = true;
  config.fuse_unk = true;
  TokenId unk = id_of(v, v.unk);
  if (unk >= 0) config.unk_token = std::string(v.tokens[unk]);
  BORA_TRY(fill_bpe(v, config, &parts));
  parts.normalizer = make_replace_string(" ", "\u2581");
  Json pattern = Json::object();
  pattern.set("String", "\u2581");
  Json replace = type_json("Replace");
  replace.set("pattern", pattern);
  replace.set("content", " ");
  Json steps = type_json("Sequence");
  steps.set("decoders", Json::array({replace, type_json("ByteFallback"), type_json("Fuse")}));
  BORA_ASSIGN(parts.decoder, Decoder::from_json(steps));
  parts.added = added_of(v);
  parts.special = special_of(v);
  parts.post_processor = surround(v, true, false, parts.special.bos, parts.special.eos);
  parts.text_rules.space = "\u2581";
  parts.text_rules.byte_tokens = true;
  return make_tokenizer(std::move(parts));
}

TokenizerResult load_gpt2(const GgufVocab& v) {
  if (is_space_marked_pre(v.pre)) return load_space_marked_bpe(v);
  if (v.pre.empty())
    return invalid_argument("tokenizer.ggml.pre is absent: the split pattern of this model is unknown");
  const GgufPre* pre = find_gguf_pre(v.pre);
  if (!pre) return unimplemented("tokenizer.ggml.pre \"" + std::string(v.pre) + "\" is not known");
  if (v.merges.empty()) return invalid_argument("tokenizer.ggml.merges is absent");
  TokenizerParts parts;
  if (pre->nfc) parts.normalizer = make_unicode_form(NormForm::kNfc);
  BORA_ASSIGN(parts.pre_tokenizer, pre_of(*pre));
  parts.tail = {true, v.add_space_prefix.value_or(false)};
  BpeConfig config;
  config.raw_bytes = true;
  config.ignore_merges = pre->ignore_merges;
  BORA_TRY(fill_bpe(v, config, &parts));
  BORA_ASSIGN(parts.decoder, Decoder::from_json(type_json("ByteLevel")));
  parts.added = added_of(v);
  parts.special = special_of(v);
  TokenId end = pre->wraps_in_sep && v.sep ? id_of(v, v.sep) : parts.special.eos;
  parts.post_processor = surround(v, pre->add_bos || pre->wraps_in_sep, pre->wraps_in_sep, parts.special.bos, end);
  return make_tokenizer(std::move(parts));
}

// Types, scores and rules that the two scored kinds share.
Result<ScoredVocab> scored_of(const GgufVocab& v) {
  ScoredVocab s;
  if (v.scores.size() != v.tokens.size())
    return invalid_argument("tokenizer.ggml.scores: one score a token is needed");
  s.tokens.assign(v.tokens.begin(), v.tokens.end());
  s.scores.assign(v.scores.begin(), v.scores.end());
  for (float score : s.scores) {
    if (!std::isfinite(score)) return invalid_argument("tokenizer.ggml.scores: a score is not a finite number");
  }
  for (size_t i = 0; i < s.tokens.size(); ++i) {
    int32_t type = type_of(v, i);
    if (type < 0 || type > 6)
      return unimplemented("tokenizer.ggml.token_type " + std::to_string(type) + " is not known");
    s.types.push_back(type == 0 ? PieceType::kNormal : static_cast<PieceType>(type));
  }
  return s;
}

Result<std::unique_ptr<Tokenizer>> load_scored(const GgufVocab& v, bool unigram) {
  BORA_ASSIGN(ScoredVocab vocab, scored_of(v));
  SentencePieceRules rules;
  rules.unigram = unigram;
  rules.special = special_of(v);
  rules.unk = rules.special.unk;
  for (size_t i = 0; i < vocab.types.size(); ++i) {
    rules.byte_fallback = rules.byte_fallback || vocab.types[i] == PieceType::kByte;
    if (rules.unk < 0 && vocab.types[i] == PieceType::kUnknown) rules.unk = static_cast<TokenId>(i);
  }
  rules.add_dummy_prefix = v.add_space_prefix.value_or(true);
  rules.remove_extra_whitespaces = v.remove_extra_whitespaces.value_or(false);
  rules.escape_whitespaces = v.escape_whitespaces.value_or(true);
  rules.charsmap = std::string(v.precompiled_charsmap);
  if (v.add_bos.value_or(!unigram) && rules.special.bos >= 0) rules.before.push_back(rules.special.bos);
  if (v.add_eos.value_or(unigram) && rules.special.eos >= 0) rules.after.push_back(rules.special.eos);
  return make_scored_tokenizer(vocab, std::move(rules));
}

TokenizerResult load_scored_bpe(const GgufVocab& v) { return load_scored(v, false); }
TokenizerResult load_t5(const GgufVocab& v) { return load_scored(v, true); }

// WordPiece. The file marks word beginnings with "▁" where the vocabulary marks continuations with "##".
TokenizerResult load_bert(const GgufVocab& v) {
  constexpr std::string_view kMark = "\u2581";
  TokenizerParts parts;
  Vocab vocab;
  vocab.reserve(v.tokens.size(), v.tokens.size() * 8);
  BertOptions bert;
  std::string text;
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    std::string_view token = v.tokens[i];
    if (!utf8_valid(token))
      return invalid_argument("tokenizer.ggml.tokens: token " + std::to_string(i) + " is not UTF-8");
    bool normal = type_of(v, i) == kNormalType && !(token.size() > 2 && token.front() == '[' && token.back() == ']');
    text.assign(token);
    if (normal && token.substr(0, kMark.size()) == kMark) {
      text.erase(0, kMark.size());
    } else if (normal) {
      text = "##" + text;
    }
    // A vocabulary with capitals was made without lower-casing.
    bool capital = normal && std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isupper(c); });
    if (capital) bert.lowercase = bert.strip_accents = false;
    if (!vocab.add(static_cast<TokenId>(i), text, false))
      return invalid_argument("tokenizer.ggml.tokens: too many tokens");
  }
  parts.special = special_of(v);
  TokenId unk = parts.special.unk >= 0 ? parts.special.unk : vocab.find("[UNK]");
  if (unk < 0) return invalid_argument("tokenizer.ggml.unknown_token_id is absent");
  std::string unk_text(vocab.text(unk));
  TokenId cls = v.cls ? id_of(v, v.cls) : parts.special.bos >= 0 ? parts.special.bos : vocab.find("[CLS]");
  TokenId sep = v.sep ? id_of(v, v.sep) : parts.special.eos >= 0 ? parts.special.eos : vocab.find("[SEP]");
  parts.normalizer = make_bert(bert);
  parts.pre_tokenizer = make_bert_split();
  parts.added = added_of(v);
  parts.model = std::make_unique<WordPieceModel>(std::move(vocab), unk_text, "##", 100);
  Json decoder = type_json("WordPiece");
  decoder.set("prefix", "##");
  decoder.set("cleanup", true);
  BORA_ASSIGN(parts.decoder, Decoder::from_json(decoder));
  parts.post_processor = surround(v, true, true, cls, sep);
  parts.text_rules.continuing_prefix = "##";
  return make_tokenizer(std::move(parts));
}

// A model without text: nothing encodes to anything.
TokenizerResult load_none(const GgufVocab&) {
  TokenizerParts parts;
  parts.model = std::make_unique<WordLevelModel>(Vocab(), "");
  BORA_ASSIGN(parts.decoder, Decoder::from_json(type_json("Fuse")));
  return make_tokenizer(std::move(parts));
}

using Loader = TokenizerResult (*)(const GgufVocab&);
const std::pair<std::string_view, Loader> kLoaders[] = {
    {"gpt2", load_gpt2},
    {kGgufScoredBpe, load_scored_bpe},
    {"bert", load_bert},
    {"t5", load_t5},
    {kGgufSpaceMarkedBpe, load_space_marked_bpe},
    {"none", load_none},
    {"no_vocab", load_none},
};

}  // namespace

TokenizerResult tokenizer_from_gguf(const GgufVocab& vocab) {
  if (!vocab.token_types.empty() && vocab.token_types.size() != vocab.tokens.size()) {
    return invalid_argument("tokenizer.ggml.token_type: one type a token is needed");
  }
  for (const auto& [name, load] : kLoaders) {
    if (name == vocab.model) return load(vocab);
  }
  return unimplemented("tokenizer.ggml.model \"" + std::string(vocab.model) + "\" is not known");
}

}  // namespace bora::text
