// safetensors: eight bytes of header length, a JSON header {name: {dtype, shape, data_offsets}}, then the data
// without holes.
//
// A model is one file, a sharded set with model.safetensors.index.json, or a Hugging Face directory that holds
// either.
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "base/json.h"
#include "formats/index.h"

namespace bora::formats {
namespace {

constexpr uint64_t kMostHeader = 100u << 20;

Status read_extents(const Json& info, const std::string& where, TensorEntry* entry, int64_t* elements) {
  const Json* shape = info.find("shape");
  if (shape == nullptr || !shape->is_array()) return invalid_argument(where + " has no shape");
  if (shape->size() > static_cast<size_t>(Shape::kMaxRank)) {
    return invalid_argument(where + " has " + std::to_string(shape->size()) + " dimensions, at most 6");
  }
  std::vector<int64_t> dims;
  *elements = 1;
  for (const Json& d : shape->items()) {
    if (!d.is_int() || d.as_int() < 0) return invalid_argument(where + " has an extent that is no natural number");
    dims.push_back(d.as_int());
    if (d.as_int() > 0 && *elements > std::numeric_limits<int64_t>::max() / 16 / d.as_int()) {
      return invalid_argument(where + " has more than 2^63 elements");
    }
    *elements *= d.as_int();
  }
  entry->shape = Shape(std::span<const int64_t>(dims));
  return {};
}

Status read_entry(std::string_view name, const Json& info, uint64_t data, uint64_t data_size, TensorEntry* entry) {
  const std::string where = "tensor '" + std::string(name.substr(0, 200)) + "'";
  if (!info.is_object()) return invalid_argument(where + " is described by no object");
  const Json* dtype = info.find("dtype");
  if (dtype == nullptr || !dtype->is_string()) return invalid_argument(where + " has no dtype");
  const auto type = dtype_from_safetensors(dtype->as_string());
  if (!type)
    return unimplemented(where + " has dtype '" + dtype->as_string().substr(0, 40) + "', which is not supported");
  entry->dtype = *type;
  entry->scheme = quant::scheme_of_dtype(*type);
  int64_t elements = 0;
  BORA_TRY(read_extents(info, where, entry, &elements));
  const Json* offsets = info.find("data_offsets");
  const bool pair = offsets != nullptr && offsets->is_array() && offsets->size() == 2 &&
                    offsets->items()[0].is_int() && offsets->items()[1].is_int();
  if (!pair) return invalid_argument(where + " has no data_offsets of two numbers");
  const int64_t begin = offsets->items()[0].as_int(), end = offsets->items()[1].as_int();
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data_size) {
    return data_loss(where + " lies at " + std::to_string(begin) + " to " + std::to_string(end) + ", outside of " +
                     std::to_string(data_size) + " bytes of data: the file is cut short or damaged");
  }
  if (end - begin != elements * dtype_bytes(*type)) {
    return invalid_argument(where + " takes " + std::to_string(end - begin) + " bytes, " + entry->shape.to_string() +
                            " of " + dtype->as_string() + " takes " + std::to_string(elements * dtype_bytes(*type)));
  }
  entry->offset = data + static_cast<uint64_t>(begin);
  entry->size = static_cast<uint64_t>(end - begin);
  return {};
}

// No two tensors share bytes.
Status check_overlap(std::vector<TensorEntry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.offset < b.offset; });
  const TensorEntry* last = nullptr;
  for (const TensorEntry& e : entries) {
    if (e.size == 0) continue;
    if (last != nullptr && e.offset < last->offset + last->size) {
      return invalid_argument("tensors '" + std::string(last->name.substr(0, 200)) + "' and '" +
                              std::string(e.name.substr(0, 200)) + "' overlap");
    }
    last = &e;
  }
  return {};
}

Status read_strings(const Json& meta, IndexedCheckpoint* out) {
  if (!meta.is_object()) return invalid_argument("__metadata__ is no object");
  for (const Json::Member& m : meta.members()) {
    if (!m.second.is_string() || out->metadata(m.first) != nullptr) continue;
    MetaValue v;
    v.type = MetaValue::Type::kString;
    v.string = out->keep(m.second.as_string());
    BORA_TRY(out->add_metadata(out->keep(m.first), std::move(v)));
  }
  return {};
}

Status read_file(IndexedCheckpoint* out, int32_t file) {
  const std::span<const std::byte> bytes = out->mapping(file).bytes();
  uint64_t length = 0;
  if (bytes.size() < 8) return data_loss("is shorter than a safetensors header");
  std::memcpy(&length, bytes.data(), 8);
  if (length > kMostHeader || length > bytes.size() - 8) {
    return data_loss("says that its header has " + std::to_string(length) +
                     " bytes: no safetensors file, or cut short");
  }
  auto header = Json::parse({reinterpret_cast<const char*>(bytes.data()) + 8, length});
  if (!header.ok()) return std::move(header).take_status().with_context("header");
  if (!header->is_object()) return invalid_argument("its header is no JSON object");
  const uint64_t data = 8 + length;
  std::vector<TensorEntry> entries;
  entries.reserve(header->size());
  out->reserve(out->tensors().size() + header->size());
  for (const Json::Member& m : header->members()) {
    if (m.first == "__metadata__") {
      BORA_TRY(read_strings(m.second, out));
      continue;
    }
    TensorEntry e;
    BORA_TRY(read_entry(m.first, m.second, data, bytes.size() - data, &e));
    e.name = out->keep(m.first);
    e.file = file;
    entries.push_back(e);
    BORA_TRY(out->add_tensor(e));
  }
  return check_overlap(std::move(entries));
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The shards that an index names, in the order of their names.
Result<std::vector<std::string>> shards_of(FileSystem& files, const std::string& index_path) {
  BORA_ASSIGN(const std::string text, files.read(index_path, kMostHeader));
  auto index = Json::parse(text);
  if (!index.ok()) return std::move(index).take_status().with_context(index_path);
  const Json* map = index->find("weight_map");
  if (map == nullptr || !map->is_object()) return invalid_argument(index_path + ": has no weight_map");
  std::set<std::string> names;
  for (const Json::Member& m : map->members()) {
    if (!m.second.is_string() || m.second.as_string().empty() ||
        m.second.as_string().find('/') != std::string::npos) {
      return invalid_argument(index_path + ": weight_map of '" + m.first.substr(0, 200) + "' names no file");
    }
    names.insert(m.second.as_string());
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::vector<std::string>> files_of_directory(FileSystem& files, const std::string& path) {
  BORA_ASSIGN(const std::vector<std::string> names, files.list(path));
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  std::vector<std::string> out;
  if (has("model.safetensors.index.json")) {
    BORA_ASSIGN(out, shards_of(files, path + "/model.safetensors.index.json"));
  } else if (has("model.safetensors")) {
    out.push_back("model.safetensors");
  } else {
    for (const std::string& name : names) {
      if (ends_with(name, ".safetensors")) out.push_back(name);
    }
    if (out.size() > 1) return invalid_argument(path + ": holds several .safetensors files and no index; name one");
  }
  if (out.empty()) return not_found(path + ": holds no .safetensors file");
  for (std::string& name : out) name = path + "/" + name;
  return out;
}

bool accepts(FileSystem& files, const std::string& path) {
  if (ends_with(path, ".safetensors")) return true;
  auto about = files.info(path);
  if (!about.ok() || !about->is_directory) return false;
  auto names = files.list(path);
  return names.ok() &&
         std::any_of(names->begin(), names->end(), [](const std::string& n) { return ends_with(n, ".safetensors"); });
}

Result<std::unique_ptr<Checkpoint>> open(FileSystem& files, const std::string& path) {
  BORA_ASSIGN(const FileInfo about, files.info(path));
  std::vector<std::string> names{path};
  if (about.is_directory) {
    BORA_ASSIGN(names, files_of_directory(files, path));
  }
  auto out =
      std::make_unique<IndexedCheckpoint>(files, "safetensors", path, about.is_directory ? path : directory_of(path));
  for (const std::string& name : names) {
    BORA_ASSIGN(std::unique_ptr<MappedFile> map, files.map(name));
    const int32_t index = out->add_file(name, std::move(map));
    BORA_TRY_CONTEXT(read_file(out.get(), index), name);
  }
  return std::unique_ptr<Checkpoint>(std::move(out));
}

}  // namespace

extern const Format kSafetensors;
const Format kSafetensors{.name = "safetensors",
                          .summary = "a .safetensors file or a Hugging Face directory",
                          .accepts = accepts,
                          .open = open};

}  // namespace bora::formats
