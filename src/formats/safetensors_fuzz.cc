// Any bytes as a safetensors file: an index whose every tensor can be read, or an error.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "formats/checkpoint.h"

namespace {

// One file in memory.
class Bytes : public bora::MappedFile {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(reinterpret_cast<const std::byte*>(data), size) {}
  std::span<const std::byte> bytes() const override { return data_; }
  void will_need(uint64_t, uint64_t) const override {}
  void dont_need(uint64_t, uint64_t) const override {}

 private:
  std::span<const std::byte> data_;
};

class OneFile : public bora::FileSystem {
 public:
  OneFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bora::Result<bora::FileInfo> info(const std::string&) override { return bora::FileInfo{.size = size_}; }
  bora::Result<std::unique_ptr<bora::MappedFile>> map(const std::string&) override {
    return std::unique_ptr<bora::MappedFile>(std::make_unique<Bytes>(data_, size_));
  }
  bora::Result<std::string> read(const std::string&, uint64_t) override { return bora::not_found("one file only"); }
  bora::Status write_atomic(const std::string&, std::string_view) override {
    return bora::not_found("one file only");
  }
  bora::Result<std::vector<std::string>> list(const std::string&) override {
    return bora::not_found("one file only");
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OneFile files(data, size);
  auto c = bora::formats::open_checkpoint(files, "x.safetensors");
  if (!c.ok()) return 0;
  unsigned sum = 0;
  for (const bora::formats::TensorEntry& t : (*c)->tensors()) {
    const auto bytes = (*c)->bytes(t);
    if (!bytes.empty()) sum += std::to_integer<unsigned>(bytes.front()) + std::to_integer<unsigned>(bytes.back());
  }
  for (std::string_view key : (*c)->metadata_keys()) {
    const auto* v = (*c)->metadata(key);
    sum += static_cast<unsigned>(v->as_ints().has_value()) + static_cast<unsigned>(v->as_doubles().has_value());
  }
  return sum == 0xFFFFFFFFu ? 1 : 0;
}
