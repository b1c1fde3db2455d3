// Tokenizer: text to ids and back, exactly as the reference library of the model's family does it.
//
// One immutable object a vocabulary, shared by all threads. Everything a model's files say about tokenization is
// either honoured or refused at load time by name; nothing is guessed. `add_special` (BOS, EOS, post-processor) and
// `parse_special` (is the text of a control token in the input that token, or plain text?) are separate choices.
//
// Threads: all const members may be called at once. Memory: caches are bounded and seeded from the vocabulary only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/spans.h"

namespace bora::text {

using TokenId = int32_t;

struct EncodeOptions {
  bool add_special = true;    // what the post-processor adds
  bool parse_special = true;  // recognise special added tokens inside the text
};

struct DecodeOptions {
  bool skip_special = false;
};

// Feeds ids one at a time and gives back text as soon as it is certain: never half a character, never a token later
// than needed; bytes that can no longer become a character come out as U+FFFD at once. One sequence, one thread.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  // Appends what is certain after `id` to *out (often nothing). An id outside the vocabulary adds nothing.
  virtual void push(TokenId id, std::string* out) = 0;
  // Appends what was held back. Called once, at the end.
  virtual void finish(std::string* out) = 0;
  // A decoder in the same state, for forked sequences.
  virtual std::unique_ptr<StreamDecoder> clone() const = 0;
};

// Roles that a server needs to know. Ids not in the vocabulary are -1.
struct SpecialIds {
  TokenId bos = -1;
  TokenId eos = -1;
  TokenId unk = -1;
  TokenId pad = -1;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends ids to *ids. Input that is not UTF-8 is decoded with U+FFFD a maximal subpart first (the HTTP border
  // refuses it before). Never fails on any text: what has no token becomes the unknown token or bytes, as the
  // reference does.
  virtual void encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>* ids) const = 0;

  // A rendered prompt: special tokens are recognised in runs of the template only; a special token's text that
  // touches a user's run is data. Merges and splits see the whole text otherwise. `add_special` as in EncodeOptions;
  // a prompt whose template already wrote the BOS text does not get a second one.
  virtual void encode_spans(const SpanText& prompt, bool add_special, std::vector<TokenId>* ids) const = 0;

  // The text of a whole sequence, as the reference's decode gives it. Ids outside the vocabulary are skipped.
  virtual std::string decode(std::span<const TokenId> ids, const DecodeOptions& options) const = 0;

  // A decoder whose output continues `prompt` (a leading space of the first new word survives). May be empty.
  virtual std::unique_ptr<StreamDecoder> stream(const DecodeOptions& options,
                                                std::span<const TokenId> prompt) const = 0;

  virtual int32_t vocab_size() const = 0;  // largest id + 1; holes are possible
  // The bytes that a token stands for inside running text (byte-level alphabet undone, byte tokens as their byte, the
  // metaspace as a space). Control tokens and holes: empty. What grammar masks are computed from. Lives as long as
  // this.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // As it stands in the vocabulary ("Ġthe", "<0x0A>", "<|im_end|>"); empty for holes. Lives as long as this.
  virtual std::string_view token_text(TokenId id) const = 0;
  virtual bool is_special(TokenId id) const = 0;  // a control token: skipped by skip_special
  virtual std::optional<TokenId> find(std::string_view token_text) const = 0;
  virtual SpecialIds special_ids() const = 0;
};

// The vocabulary as GGUF metadata states it (tokenizer.ggml.*). Views live during the call only.
struct GgufVocab {
  std::string_view model;  // tokenizer.ggml.model: the kind
  std::string_view pre;    // name of the split pattern; empty = absent
  std::span<const std::string_view> tokens;
  std::span<const float> scores;             // empty = absent
  std::span<const int32_t> token_types;      // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::span<const std::string_view> merges;  // "left right"
  std::string_view precompiled_charsmap;
  std::optional<int64_t> bos, eos, unk, sep, pad, cls, mask, eot, eom;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces, escape_whitespaces;
};

// Each refuses what it does not understand with an error that names the piece of configuration.
// `config_json` is tokenizer_config.json, or empty.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view tokenizer_json, std::string_view config_json);
Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(const GgufVocab& vocab);
Result<std::unique_ptr<Tokenizer>> tokenizer_from_sentencepiece(std::string_view model_proto);
// `pattern` = the split pattern that belongs to the rank file; `special` = {text, id}.
struct SpecialToken {
  std::string text;
  TokenId id;
};
Result<std::unique_ptr<Tokenizer>> tokenizer_from_tiktoken(std::string_view ranks, std::string_view pattern,
                                                           std::span<const SpecialToken> special);
Result<std::unique_ptr<Tokenizer>> tokenizer_from_tekken(std::string_view tekken_json);

}  // namespace bora::text
