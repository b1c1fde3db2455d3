// Makers of decode steps. `fused`: what arrives is one token in parts.
#pragma once

#include "text/tokenizer/decoder.h"

namespace bora::text {

using StepPtr = std::unique_ptr<DecodeStep>;

struct StripSpec {
  std::string content;  // one character
  size_t start;
  size_t stop;
  bool fused;
};
struct CtcSpec {
  std::string pad;
  std::string delimiter;
  bool cleanup;
  bool fused;
};

StepPtr make_join_step();
StepPtr make_fuse_step();
StepPtr make_byte_level_step();
StepPtr make_byte_fallback_step(bool streaming, bool fused);
StepPtr make_strip_step(StripSpec spec);
StepPtr make_replace_step(std::string pattern, std::string content, bool fused);
Result<StepPtr> make_replace_regex_step(std::string_view pattern, std::string content, bool fused);
StepPtr make_metaspace_step(std::string replacement, bool strip_first, bool fused);
StepPtr make_word_piece_step(std::string prefix, bool cleanup, bool fused);
StepPtr make_suffix_step(std::string suffix, bool fused);
StepPtr make_ctc_step(CtcSpec spec);

}  // namespace bora::text
