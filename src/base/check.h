// CHECK for our own invariants. No input may reach one: a failed check is a bug and ends the process with its place.
#pragma once

namespace bora {

// Prints "file:line: check failed: expression (text)" to stderr and aborts. Never returns.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const char* text);

}  // namespace bora

// Always on. The text says which invariant broke.
#define BORA_CHECK(condition, text)                               \
  do {                                                            \
    if (!(condition)) [[unlikely]]                                \
      ::bora::check_failed(__FILE__, __LINE__, #condition, text); \
  } while (false)

// For hot loops: on unless NDEBUG.
#ifdef NDEBUG
#define BORA_DCHECK(condition, text) \
  do {                               \
  } while (false)
#else
#define BORA_DCHECK(condition, text) BORA_CHECK(condition, text)
#endif
