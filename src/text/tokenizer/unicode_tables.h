// Tables behind unicode.h; see unicode_tables.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bora::text {

struct CodeRange {
  uint32_t first;
  uint32_t last;
};
struct CategoryStart {
  uint32_t first;
  uint8_t category;
};
struct ScriptRange {
  uint32_t first;
  uint32_t last;
  uint8_t script;
};

extern const CategoryStart kCategoryStarts[];
extern const size_t kCategoryStartsCount;
extern const CodeRange kPunctuation[];
extern const size_t kPunctuationCount;
extern const CodeRange kCombiningMarks[];
extern const size_t kCombiningMarksCount;
extern const CodeRange kNumeric[];
extern const size_t kNumericCount;
extern const CodeRange kWordOther[];
extern const size_t kWordOtherCount;
extern const CodeRange kBertMarks[];
extern const size_t kBertMarksCount;
extern const CodeRange kBertControl[];
extern const size_t kBertControlCount;
extern const CodeRange kLowerExtra[];  // {from, to}
extern const size_t kLowerExtraCount;
extern const CodeRange kNormInert[];
extern const size_t kNormInertCount;
extern const CodeRange kAfterUnicode14[];
extern const size_t kAfterUnicode14Count;
extern const ScriptRange kScripts[];
extern const size_t kScriptsCount;

}  // namespace bora::text
