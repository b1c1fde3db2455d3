#include "formats/index.h"

#include <algorithm>

#include "base/check.h"

namespace bora::formats {

std::string shown_name(std::string_view name) {
  std::string out = "'";
  for (char c : name.substr(0, 200)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return out + (name.size() > 200 ? "…'" : "'");
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status check_overlap(std::vector<TensorEntry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.offset < b.offset; });
  const TensorEntry* last = nullptr;
  for (const TensorEntry& e : entries) {
    if (e.size == 0) continue;
    if (last != nullptr && e.offset < last->offset + last->size) {
      return invalid_argument("tensors " + shown_name(last->name) + " and " + shown_name(e.name) + " overlap");
    }
    last = &e;
  }
  return {};
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
    return invalid_argument(shown_name(name) + " is no plain file name");
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
    return invalid_argument("tensor " + shown_name(entry.name) + " stands twice");
  }
  tensors_.push_back(entry);
  return {};
}

Status IndexedCheckpoint::add_metadata(std::string_view key, MetaValue value) {
  if (!metadata_.emplace(key, std::make_unique<MetaValue>(std::move(value))).second) {
    return invalid_argument("metadata key " + shown_name(key) + " stands twice");
  }
  keys_.push_back(key);
  return {};
}

std::string_view IndexedCheckpoint::keep(std::string text) {
  kept_.push_back(std::make_unique<std::string>(std::move(text)));
  return *kept_.back();
}

}  // namespace bora::formats
