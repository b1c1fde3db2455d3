// Hand-written splitters for the split patterns that nearly all models use.
//
// A scanner cuts text exactly as its regular expression would (alternatives in order, greedy, look-ahead at the end
// of the text), in one pass without backtracking beyond a run. Equality with the regex engine is property-tested.
// Runs of characters that no alternative matches are pieces too, as "isolated" splitting makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bora::text {

class Scanner {
 public:
  virtual ~Scanner() = default;
  // text[begin, end) stands alone: nothing before or after it is seen. Writes the ends of up to `max` pieces, the
  // first of which begins at `begin`, and gives their number. Continuing at the last end gives the rest. REQUIRES:
  // begin < end, max > 0, valid UTF-8, end < 2^32.
  virtual size_t scan(const char* text, size_t begin, size_t end, uint32_t* ends, size_t max) const = 0;
};

// One stage of a pre-tokenizer as far as scanners know it: a regular expression whose matches are isolated, or
// "digits" (every numeric character alone).
struct ScanStage {
  bool digits = false;
  std::string_view pattern;
};

// The scanner that does what the stages do one after the other, or null when there is none.
std::unique_ptr<Scanner> find_scanner(const std::vector<ScanStage>& stages);

// A known list of stages, for tests and tables.
struct KnownScanner {
  std::string_view name;
  std::vector<ScanStage> stages;
};
std::vector<KnownScanner> known_scanners();

}  // namespace bora::text
