// Fields of a route, joined from those of its parts; made once.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "serve/route.h"

namespace bora::serve {

inline std::vector<FieldSpec> join_fields(std::initializer_list<std::span<const FieldSpec>> parts) {
  std::vector<FieldSpec> all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace bora::serve
