// SentencePiece's tokenizer.model: a ModelProto with pieces (1), trainer_spec (2) and normalizer_spec (3).
//
// The library itself puts no special ids around a text, so add_special adds none. A space before the text is added
// where a stretch between user-defined symbols begins.
#include <cmath>

#include "text/tokenizer/protobuf_reader.h"
#include "text/tokenizer/scored.h"

namespace bora::text {
namespace {

Status broken(std::string_view where) { return data_loss("tokenizer.model: broken " + std::string(where)); }

Status read_piece(std::string_view message, ScoredVocab* vocab) {
  std::string_view text;
  float score = 0;
  uint64_t type = 1;
  ProtoReader reader(message);
  for (ProtoField f; reader.next(&f);) {
    if (f.number == 1 && f.wire == 2) text = f.bytes;
    if (f.number == 2 && f.wire == 5) score = f.as_float();
    if (f.number == 3 && f.wire == 0) type = f.value;
  }
  if (!reader.ok()) return broken("piece");
  if (type < 1 || type > 6)
    return unimplemented("tokenizer.model: piece type " + std::to_string(type) + " is not known");
  if (!std::isfinite(score)) return data_loss("tokenizer.model: a score is not a finite number");
  vocab->tokens.push_back(text);
  vocab->scores.push_back(score);
  vocab->types.push_back(static_cast<PieceType>(type));
  return ok_status();
}

struct Trainer {
  uint64_t model_type = 1;  // unigram
  int32_t unk = 0;
  int32_t bos = 1;
  int32_t eos = 2;
  int32_t pad = -1;
  bool byte_fallback = false;
  bool space_as_suffix = false;
};

Status read_trainer(std::string_view message, Trainer* t) {
  ProtoReader reader(message);
  for (ProtoField f; reader.next(&f);) {
    if (f.wire != 0) continue;
    auto number = static_cast<int32_t>(f.value);
    if (f.number == 3) t->model_type = f.value;
    if (f.number == 24) t->space_as_suffix = f.value != 0;
    if (f.number == 35) t->byte_fallback = f.value != 0;
    if (f.number == 40) t->unk = number;
    if (f.number == 41) t->bos = number;
    if (f.number == 42) t->eos = number;
    if (f.number == 43) t->pad = number;
  }
  return reader.ok() ? ok_status() : broken("trainer_spec");
}

Status read_normalizer(std::string_view message, SentencePieceRules* rules) {
  ProtoReader reader(message);
  for (ProtoField f; reader.next(&f);) {
    if (f.number == 2 && f.wire == 2) rules->charsmap = std::string(f.bytes);
    if (f.number == 3 && f.wire == 0) rules->add_dummy_prefix = f.value != 0;
    if (f.number == 4 && f.wire == 0) rules->remove_extra_whitespaces = f.value != 0;
    if (f.number == 5 && f.wire == 0) rules->escape_whitespaces = f.value != 0;
    if (f.number == 6 && f.wire == 2 && !f.bytes.empty())
      return unimplemented("tokenizer.model: normalization_rule_tsv");
  }
  return reader.ok() ? ok_status() : broken("normalizer_spec");
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_sentencepiece(std::string_view model_proto) {
  ScoredVocab vocab;
  Trainer trainer;
  SentencePieceRules rules;
  rules.remove_extra_whitespaces = true;
  ProtoReader reader(model_proto);
  for (ProtoField f; reader.next(&f);) {
    if (f.wire != 2) continue;
    if (f.number == 1) BORA_TRY(read_piece(f.bytes, &vocab));
    if (f.number == 2) BORA_TRY(read_trainer(f.bytes, &trainer));
    if (f.number == 3) BORA_TRY(read_normalizer(f.bytes, &rules));
  }
  if (!reader.ok()) return broken("message");
  if (vocab.tokens.empty()) return data_loss("tokenizer.model: no pieces");
  if (trainer.model_type != 1 && trainer.model_type != 2) {
    return unimplemented("tokenizer.model: model_type " + std::to_string(trainer.model_type) +
                         " (only unigram and bpe)");
  }
  if (trainer.space_as_suffix) return unimplemented("tokenizer.model: treat_whitespace_as_suffix");
  auto count = static_cast<TokenId>(vocab.tokens.size());
  auto in = [&](int32_t id) { return id >= 0 && id < count ? id : -1; };
  rules.unigram = trainer.model_type == 1;
  rules.byte_fallback = trainer.byte_fallback;
  rules.special = {in(trainer.bos), in(trainer.eos), in(trainer.unk), in(trainer.pad)};
  rules.unk = rules.special.unk;
  return make_scored_tokenizer(vocab, std::move(rules));
}

}  // namespace bora::text
