// Normalizers: text to text, before anything is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace bora::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Writes the normalized text to *out and gives true, or gives false when `text` stays as it is (*out is then
  // unspecified). `text` is valid UTF-8 and does not overlap *out. *out is replaced.
  virtual bool apply(std::string_view text, std::string* out) const = 0;
};

// From the "normalizer" object of a tokenizer.json; null gives a null pointer. An unknown type is an error that names
// it.
Result<std::unique_ptr<Normalizer>> normalizer_from_json(const Json& spec);

enum class NormForm { kNfc, kNfd, kNfkc, kNfkd };
std::unique_ptr<Normalizer> make_unicode_form(NormForm form);
// `longest`: SentencePiece's own rule (longest match at each place); otherwise the reference library's (a whole
// grapheme or character is replaced by the shortest match at its start). The map is the binary blob, not base64.
Result<std::unique_ptr<Normalizer>> make_charsmap(std::string blob, bool longest);
std::unique_ptr<Normalizer> make_replace_string(std::string pattern, std::string content);
std::unique_ptr<Normalizer> make_prepend(std::string text);
std::unique_ptr<Normalizer> make_sequence(std::vector<std::unique_ptr<Normalizer>> items);
struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};
std::unique_ptr<Normalizer> make_bert(const BertOptions& options);
// SentencePiece's white-space rules: runs of spaces become one, none at the ends.
std::unique_ptr<Normalizer> make_squeeze_spaces();

bool decode_base64(std::string_view text, std::string* out);

}  // namespace bora::text
