#include "tensor/shape.h"

namespace bora {

std::string Shape::to_string() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(dim(i));
  }
  return out + "]";
}

}  // namespace bora
