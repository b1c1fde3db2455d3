// Pre-tokenizers: cut normalized text into the pieces that a model sees one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/scanner.h"

namespace bora::text {

// One stretch of text between added tokens and its pieces, ascending and without overlap; text between pieces is
// dropped.
struct PreText {
  struct Piece {
    uint32_t begin;
    uint32_t end;
  };
  std::string text;
  std::vector<Piece> pieces;
  bool at_start = true;  // the stretch begins where the original text begins
  // For each byte of `text` the range of the original text it came from; empty = not tracked.
  std::vector<std::pair<uint32_t, uint32_t>> origin;

  // Takes over `text` as one piece (none when empty).
  void reset(bool start);
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PreText* t) const = 0;
  // The stages as scanners know them are appended and true is given, when this pre-tokenizer only splits by them.
  virtual bool scan_stages(std::vector<ScanStage>* stages) const {
    (void)stages;
    return false;
  }
};

// What a byte-level pre-tokenizer that stands last does, for models that work on raw bytes: everything but the
// alphabet.
struct ByteLevelTail {
  bool present = false;
  bool add_prefix_space = false;
};

// From the "pre_tokenizer" object; null gives a null pointer. With `tail` non-null a byte-level pre-tokenizer at the
// end does not rewrite the bytes, and *tail says so.
Result<std::unique_ptr<PreTokenizer>> pretokenizer_from_json(const Json& spec, ByteLevelTail* tail);

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
std::unique_ptr<PreTokenizer> make_pre_sequence(std::vector<std::unique_ptr<PreTokenizer>> items);
// Isolated matches of a regular expression.
Result<std::unique_ptr<PreTokenizer>> make_regex_split(std::string_view pattern);
std::unique_ptr<PreTokenizer> make_digit_split();
enum class PrependScheme { kAlways, kFirst, kNever };
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split);
std::unique_ptr<PreTokenizer> make_bert_split();
std::unique_ptr<PreTokenizer> make_white_space_split();
std::unique_ptr<PreTokenizer> make_punctuation_split(SplitBehavior behavior);

}  // namespace bora::text
