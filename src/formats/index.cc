#include "formats/index.h"

#include "base/check.h"

namespace bora::formats {

std::string directory_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

const TensorEntry* IndexedCheckpoint::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

std::span<const std::byte> IndexedCheckpoint::bytes(const TensorEntry& entry) const {
  return mapping(entry.file).bytes().subspan(entry.offset, entry.size);
}

void IndexedCheckpoint::dont_need(const TensorEntry& entry) const {
  mapping(entry.file).dont_need(entry.offset, entry.size);
}

const MetaValue* IndexedCheckpoint::metadata(std::string_view key) const {
  auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : it->second.get();
}

Result<std::string> IndexedCheckpoint::side_file(std::string_view name) const {
  constexpr uint64_t kMost = 256u << 20;
  if (name.empty() || name.find('/') != std::string_view::npos || name.front() == '.') {
    return invalid_argument("'" + std::string(name) + "' is no plain file name");
  }
  return file_system_->read(directory_ + "/" + std::string(name), kMost);
}

int32_t IndexedCheckpoint::add_file(std::string name, std::unique_ptr<MappedFile> mapping) {
  file_names_.push_back(std::move(name));
  mappings_.push_back(std::move(mapping));
  return static_cast<int32_t>(mappings_.size()) - 1;
}

Status IndexedCheckpoint::add_tensor(TensorEntry entry) {
  if (!by_name_.emplace(entry.name, tensors_.size()).second) {
    return invalid_argument("tensor '" + std::string(entry.name) + "' stands twice");
  }
  tensors_.push_back(entry);
  return {};
}

Status IndexedCheckpoint::add_metadata(std::string_view key, MetaValue value) {
  if (!metadata_.emplace(key, std::make_unique<MetaValue>(std::move(value))).second) {
    return invalid_argument("metadata key '" + std::string(key) + "' stands twice");
  }
  keys_.push_back(key);
  return {};
}

std::string_view IndexedCheckpoint::keep(std::string text) {
  kept_.push_back(std::make_unique<std::string>(std::move(text)));
  return *kept_.back();
}

}  // namespace bora::formats
