// Post-processors: where special ids are put around one or two encoded texts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::text {

class Vocab;

// Ids with the type and the special mark that the reference gives each.
struct Encoded {
  std::vector<TokenId> ids;
  std::vector<uint8_t> types;
  std::vector<uint8_t> special;
  void append(TokenId id, uint8_t type, bool is_special);
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Ids to put before and after a single text.
  virtual void single(std::vector<TokenId>* before, std::vector<TokenId>* after) const = 0;
  // The whole of one (second null) or two texts.
  virtual Encoded process(const std::vector<TokenId>& first, const std::vector<TokenId>* second) const = 0;
};

// From the "post_processor" object; null gives a null pointer.
Result<std::unique_ptr<PostProcessor>> post_processor_from_json(const Json& spec);
// `before` text `after`.
std::unique_ptr<PostProcessor> make_surround(std::vector<TokenId> before, std::vector<TokenId> after);

}  // namespace bora::text
