// What the fuzzers of the formats share: a file system that holds one file in memory, and reading all that an index
// offers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "formats/checkpoint.h"

namespace bora::formats {

// One file in memory.
class Bytes : public MappedFile {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(reinterpret_cast<const std::byte*>(data), size) {}
  std::span<const std::byte> bytes() const override { return data_; }
  void will_need(uint64_t, uint64_t) const override {}
  void dont_need(uint64_t, uint64_t) const override {}

 private:
  std::span<const std::byte> data_;
};

class OneFile : public FileSystem {
 public:
  OneFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  Result<FileInfo> info(const std::string&) override { return FileInfo{.size = size_}; }
  Result<std::unique_ptr<MappedFile>> map(const std::string&) override {
    return std::unique_ptr<MappedFile>(std::make_unique<Bytes>(data_, size_));
  }
  Result<std::string> read(const std::string&, uint64_t) override { return not_found("one file only"); }
  Status write_atomic(const std::string&, std::string_view) override { return not_found("one file only"); }
  Result<std::vector<std::string>> list(const std::string&) override { return not_found("one file only"); }

 private:
  const uint8_t* data_;
  size_t size_;
};

// Opens the bytes under `name`; every tensor's ends and every metadata value are read.
inline int fuzz_file(const char* name, const uint8_t* data, size_t size) {
  OneFile files(data, size);
  auto c = open_checkpoint(files, name);
  if (!c.ok()) return 0;
  unsigned sum = 0;
  for (const TensorEntry& t : (*c)->tensors()) {
    const auto bytes = (*c)->bytes(t);
    if (!bytes.empty()) sum += std::to_integer<unsigned>(bytes.front()) + std::to_integer<unsigned>(bytes.back());
  }
  for (std::string_view key : (*c)->metadata_keys()) {
    const auto* v = (*c)->metadata(key);
    sum += static_cast<unsigned>(v->as_ints().has_value()) + static_cast<unsigned>(v->as_doubles().has_value());
  }
  return sum == 0xFFFFFFFFu ? 1 : 0;
}

}  // namespace bora::formats
