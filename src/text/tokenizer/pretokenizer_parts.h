// Makers of single pre-tokenizers from their JSON, shared by the two files that define them.
#pragma once

#include "text/tokenizer/pretokenizer.h"

namespace bora::text {

using PreTokenizerResult = Result<std::unique_ptr<PreTokenizer>>;

PreTokenizerResult split_from(const Json& spec);
PreTokenizerResult digits_from(const Json& spec);
PreTokenizerResult punctuation_from(const Json& spec);
PreTokenizerResult char_delimiter_from(const Json& spec);
PreTokenizerResult fixed_length_from(const Json& spec);
std::unique_ptr<PreTokenizer> make_word_split();
std::unique_ptr<PreTokenizer> make_script_split();

}  // namespace bora::text
