#include "engine/memory.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

namespace bora::engine {
namespace {

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream in(path);
  uint64_t v = 0;
  return in >> v ? std::optional(v) : std::nullopt;  // "max" is no number: no limit
}

// "key value" lines.
std::optional<uint64_t> field_in(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    uint64_t v = 0;
    if (words >> name >> v && name == key) return v;
  }
  return std::nullopt;
}

// The control group's limit less what it uses; file pages it can drop do not count as used.
std::optional<uint64_t> left_in_group(const std::string& folder, const char* limit_file, const char* usage_file,
                                      const char* cache_key) {
  const auto limit = number_in(folder + limit_file), usage = number_in(folder + usage_file);
  if (!limit || !usage || *limit > (uint64_t{1} << 60)) return std::nullopt;
  const uint64_t cache = field_in(folder + "/memory.stat", cache_key).value_or(0);
  const uint64_t used = *usage > cache ? *usage - cache : 0;
  return *limit > used ? *limit - used : 0;
}

void lower(AvailableMemory* out, const std::optional<uint64_t>& bytes, const char* source) {
  if (!bytes || *bytes >= out->bytes) return;
  out->bytes = *bytes;
  out->source = source;
}

}  // namespace

AvailableMemory available_memory(const std::string& root) {
  AvailableMemory out;
  if (const auto kib = field_in(root + "/proc/meminfo", "MemAvailable:")) {
    out = {*kib * 1024, "the system's available memory"};
  } else {
    const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGE_SIZE);
    out = {static_cast<uint64_t>(pages) * static_cast<uint64_t>(size), "the machine's memory"};
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const size_t colon = line.find(':'), path_at = line.find(':', colon + 1);
    if (colon == std::string::npos || path_at == std::string::npos) continue;
    const bool unified = path_at == colon + 1;
    const bool memory = line.substr(colon + 1, path_at - colon - 1).find("memory") != std::string::npos;
    if (!unified && !memory) continue;
    // Each group above limits, too.
    std::string path = line.substr(path_at + 1);
    while (true) {
      if (unified) {
        lower(&out, left_in_group(root + "/sys/fs/cgroup" + path, "/memory.max", "/memory.current", "inactive_file"),
              "the memory limit of the control group");
      } else {
        lower(&out,
              left_in_group(root + "/sys/fs/cgroup/memory" + path, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                            "total_inactive_file"),
              "the memory limit of the control group");
      }
      if (path.size() <= 1) break;
      path.resize(path.rfind('/'));
    }
  }
  return out;
}

std::string bytes_text(uint64_t bytes) {
  char text[32];
  const double v = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) {
    std::snprintf(text, sizeof text, "%.2f GiB", v / (1 << 30));
  } else {
    std::snprintf(text, sizeof text, "%.1f MiB", v / (1 << 20));
  }
  return text;
}

}  // namespace bora::engine
