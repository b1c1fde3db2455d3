// For fuzzers: what is done with a tokenizer that loaded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {

inline void use_tokenizer(const Tokenizer& t) {
  const std::string long_run(300, 'a');
  for (std::string_view text : {std::string_view("Hello  w\u00F6rld 123\n\u4F60\u597D \U0001F600 <s>"),
                                std::string_view("\xE4\xBD"), std::string_view(""), std::string_view(long_run)}) {
    std::vector<TokenId> ids;
    t.encode(text, {true, true}, &ids);
    for (TokenId id : ids) BORA_CHECK(id >= 0 && id < t.vocab_size(), "an id outside the vocabulary");
    std::string whole = t.decode(ids, {false});
    BORA_CHECK(utf8_valid(whole), "decode gave broken UTF-8");
    auto stream = t.stream({true}, std::span(ids).first(ids.size() / 2));
    std::string out;
    for (TokenId id : ids) stream->push(id, &out);
    stream->finish(&out);
    BORA_CHECK(utf8_valid(out), "the stream gave broken UTF-8");
  }
  std::vector<TokenId> odd = {-1, INT32_MAX, t.vocab_size(), 0};
  t.decode(odd, {true});
}

}  // namespace bora::text
