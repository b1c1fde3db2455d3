// The index that every format fills: names to entries, mapped files, metadata. Private to the module.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/checkpoint.h"

namespace bora::formats {

class IndexedCheckpoint : public Checkpoint {
 public:
  IndexedCheckpoint(FileSystem& files, std::string_view format, std::string path, std::string directory)
      : file_system_(&files), format_(format), path_(std::move(path)), directory_(std::move(directory)) {}

  std::string_view format() const override { return format_; }
  const std::string& path() const override { return path_; }
  std::span<const std::string> files() const override { return file_names_; }
  std::span<const TensorEntry> tensors() const override { return tensors_; }
  const TensorEntry* find(std::string_view name) const override;
  std::span<const std::byte> bytes(const TensorEntry& entry) const override;
  void dont_need(const TensorEntry& entry) const override;
  std::span<const std::string_view> metadata_keys() const override { return keys_; }
  const MetaValue* metadata(std::string_view key) const override;
  Result<std::string> side_file(std::string_view name) const override;

  // Filling.
  int32_t add_file(std::string name, std::unique_ptr<MappedFile> mapping);
  // kInvalidArgument when the name exists.
  Status add_tensor(TensorEntry entry);
  Status add_metadata(std::string_view key, MetaValue value);
  void reserve(size_t tensors) {
    tensors_.reserve(tensors);
    by_name_.reserve(tensors);
  }
  // Names and strings that do not lie in a mapping.
  std::string_view keep(std::string text);
  const MappedFile& mapping(int32_t file) const { return *mappings_[static_cast<size_t>(file)]; }

 private:
  FileSystem* file_system_;  // outlives this
  std::string_view format_;
  std::string path_, directory_;
  std::vector<std::string> file_names_;
  std::vector<std::unique_ptr<MappedFile>> mappings_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, std::unique_ptr<MetaValue>> metadata_;
  std::vector<std::unique_ptr<std::string>> kept_;
};

// No two tensors share bytes.
Status check_overlap(std::vector<TensorEntry> entries);
// A name of a file for an error line: at most 200 bytes, control characters as '?', in quotes.
std::string shown_name(std::string_view name);
// "folder/file" -> "folder"; a bare name -> ".".
std::string directory_of(const std::string& path);

}  // namespace bora::formats
