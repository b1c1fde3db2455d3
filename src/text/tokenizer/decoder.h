// Decoders: token texts back to text, as a chain of small machines that work token by token.
//
// One chain serves both uses. Whole-sequence decoding follows the reference exactly; streaming gives text out as soon
// as nothing that may follow can change it, and differs only in broken runs of byte tokens (the reference throws a
// whole run away when any byte of it is wrong, which a stream cannot know in time).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace bora::text {

// A machine of the chain. Gets tokens, gives tokens to `next`.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  // `continues`: this text belongs to the same token as the text before (only after a fusing step).
  virtual void token(std::string_view text, bool continues, DecodeStep* next) = 0;
  // The end: passes on what is held. The chain then calls finish of the next step.
  virtual void finish(DecodeStep* next) { (void)next; }
  virtual std::unique_ptr<DecodeStep> clone() const = 0;
};

// A running chain. One sequence, one thread.
class DecodeChain {
 public:
  DecodeChain() = default;
  explicit DecodeChain(std::vector<std::unique_ptr<DecodeStep>> steps) : steps_(std::move(steps)) {}
  DecodeChain(const DecodeChain& other);
  DecodeChain& operator=(const DecodeChain&) = delete;
  DecodeChain(DecodeChain&&) = default;
  DecodeChain& operator=(DecodeChain&&) = default;

  void push(std::string_view token, std::string* out);
  void finish(std::string* out);

 private:
  void deliver(size_t step, std::string_view token, bool continues, std::string* out);
  friend class ChainLink;
  std::vector<std::unique_ptr<DecodeStep>> steps_;
};

// The immutable description of a chain.
class Decoder {
 public:
  // From the "decoder" object; null joins tokens with spaces. An unknown type is an error that names it.
  static Result<Decoder> from_json(const Json& spec);

  // True when decoding is nothing but joining the bytes that tokens stand for in the byte-level alphabet.
  bool byte_level() const { return byte_level_; }
  // `streaming`: see the head of the file.
  DecodeChain chain(bool streaming) const;
  std::string decode(const std::vector<std::string>& tokens) const;

 private:
  std::vector<std::unique_ptr<DecodeStep>> exact_;
  std::vector<std::unique_ptr<DecodeStep>> streaming_;
  bool byte_level_ = false;
};

// Incremental UTF-8 with replacement. Appends what is certain of *held + bytes to *out and keeps the rest in *held.
// `per_byte`: one U+FFFD a broken byte instead of one a maximal subpart.
void utf8_feed(std::string_view bytes, bool per_byte, std::string* held, std::string* out);
// What is left at the end: a broken character.
void utf8_flush(bool per_byte, std::string* held, std::string* out);

// WordPiece's clean-up of spaces before punctuation and in English contractions.
void clean_up(std::string* text);
void replace_all(std::string_view from, std::string_view to, std::string* text);

}  // namespace bora::text
