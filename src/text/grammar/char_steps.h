// One byte of one character: raw UTF-8, or in a JSON string also every escape that spells it.
#pragma once

#include <cstdint>

#include "text/grammar/program.h"

namespace bora::text {

struct CharStep {
  enum Result : uint8_t { kNone, kPartial, kDone };
  Result result;
  uint32_t aux;  // state for the next byte when kPartial; never 0
};

// Advances a kChar node whose state is `aux` (0 = at the start). kPartial only if some member of the node's set can
// still be completed.
CharStep char_step(const Program& program, const Node& node, uint32_t aux, uint8_t byte);

// Writes `value` to row[b] for a superset of the bytes b that the node can take in state `aux`.
void mark_first_bytes(const Program& program, const Node& node, uint32_t aux, uint32_t* row, uint32_t value);

// The byte that must come next in the plain spelling, or -1 when there are several.
int single_byte(const Program& program, const Node& node, uint32_t aux);

}  // namespace bora::text
