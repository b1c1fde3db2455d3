#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace bora {

void check_failed(const char* file, int line, const char* expression, const char* text) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", file, line, expression, text);
  std::fflush(stderr);
  std::abort();
}

}  // namespace bora
