// What memory the machine has left for this process: the smaller of what the system calls available and what the
// process's control groups leave. Private to the module.
#pragma once

#include <cstdint>
#include <string>

namespace bora::engine {

struct AvailableMemory {
  uint64_t bytes = 0;
  std::string source;  // in words
};

// `root` stands before the system's paths; tests give their own.
AvailableMemory available_memory(const std::string& root = "");

// "1.5 GiB"
std::string bytes_text(uint64_t bytes);

}  // namespace bora::engine
