// safetensors: eight bytes of header length, a JSON header {name: {dtype, shape, data_offsets}}, then the data
// without holes.
//
// A model is one file, a sharded set with model.safetensors.index.json, or a Hugging Face directory that holds
// either.
#include <simdjson.h>

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

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

Status read_extents(object info, const std::string& where, TensorEntry* entry, int64_t* elements) {
  array shape;
  if (info["shape"].get(shape) != simdjson::SUCCESS) return invalid_argument(where + " has no shape");
  if (shape.size() > static_cast<size_t>(Shape::kMaxRank)) {
    return invalid_argument(where + " has " + std::to_string(shape.size()) + " dimensions, at most 6");
  }
  std::vector<int64_t> dims;
  *elements = 1;
  for (element d : shape) {
    int64_t n = -1;
    if (d.get(n) != simdjson::SUCCESS || n < 0) {
      return invalid_argument(where + " has an extent that is no natural number");
    }
    dims.push_back(n);
    if (n > 0 && *elements > std::numeric_limits<int64_t>::max() / 16 / n) {
      return invalid_argument(where + " has more than 2^63 elements");
    }
    *elements *= n;
  }
  entry->shape = Shape(std::span<const int64_t>(dims));
  return {};
}

Status read_offsets(object info, const std::string& where, int64_t* begin, int64_t* end) {
  array offsets;
  const bool pair = info["data_offsets"].get(offsets) == simdjson::SUCCESS && offsets.size() == 2 &&
                    offsets.at(0).get(*begin) == simdjson::SUCCESS && offsets.at(1).get(*end) == simdjson::SUCCESS;
  return pair ? ok_status() : invalid_argument(where + " has no data_offsets of two numbers");
}

Status read_entry(std::string_view name, element described, uint64_t data, uint64_t data_size, TensorEntry* entry) {
  const std::string where = "tensor " + shown_name(name);
  object info;
  if (described.get(info) != simdjson::SUCCESS) return invalid_argument(where + " is described by no object");
  std::string_view dtype;
  if (info["dtype"].get(dtype) != simdjson::SUCCESS) return invalid_argument(where + " has no dtype");
  const auto type = dtype_from_safetensors(dtype);
  if (!type) return unimplemented(where + " has dtype " + shown_name(dtype) + ", which is not supported");
  entry->dtype = *type;
  entry->scheme = quant::scheme_of_dtype(*type);
  int64_t elements = 0, begin = 0, end = 0;
  BORA_TRY(read_extents(info, where, entry, &elements));
  BORA_TRY(read_offsets(info, where, &begin, &end));
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data_size) {
    return data_loss(where + " lies at " + std::to_string(begin) + " to " + std::to_string(end) + ", outside of " +
                     std::to_string(data_size) + " bytes of data: the file is cut short or damaged");
  }
  if (end - begin != elements * dtype_bytes(*type)) {
    return invalid_argument(where + " takes " + std::to_string(end - begin) + " bytes, " + entry->shape.to_string() +
                            " of " + std::string(dtype) + " takes " + std::to_string(elements * dtype_bytes(*type)));
  }
  entry->offset = data + static_cast<uint64_t>(begin);
  entry->size = static_cast<uint64_t>(end - begin);
  return {};
}

Status read_strings(element described, IndexedCheckpoint* out) {
  object meta;
  if (described.get(meta) != simdjson::SUCCESS) return invalid_argument("__metadata__ is no object");
  for (auto field : meta) {
    std::string_view value;
    if (field.value.get(value) != simdjson::SUCCESS || out->metadata(field.key) != nullptr) continue;
    MetaValue v;
    v.type = MetaValue::Type::kString;
    v.string = out->keep(std::string(value));
    BORA_TRY(out->add_metadata(out->keep(std::string(field.key)), std::move(v)));
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
  simdjson::dom::parser parser;
  element root;
  const auto error = parser.parse(reinterpret_cast<const char*>(bytes.data()) + 8, length, true).get(root);
  if (error != simdjson::SUCCESS) return invalid_argument(std::string("header: ") + simdjson::error_message(error));
  object header;
  if (root.get(header) != simdjson::SUCCESS) return invalid_argument("its header is no JSON object");
  const uint64_t data = 8 + length;
  std::vector<TensorEntry> entries;
  for (auto field : header) {
    if (field.key == "__metadata__") {
      BORA_TRY(read_strings(field.value, out));
      continue;
    }
    TensorEntry e;
    BORA_TRY(read_entry(field.key, field.value, data, bytes.size() - data, &e));
    e.name = out->keep(std::string(field.key));
    e.file = file;
    entries.push_back(e);
    BORA_TRY(out->add_tensor(e));
  }
  return check_overlap(std::move(entries));
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

struct FileSet {
  std::vector<std::string> files, tensors;  // tensors: names that an index promises
};

// The shards that an index names, in the order of their names.
Result<FileSet> shards_of(FileSystem& files, const std::string& index_path) {
  BORA_ASSIGN(const std::string text, files.read(index_path, kMostHeader));
  auto index = Json::parse(text);
  if (!index.ok()) return std::move(index).take_status().with_context(index_path);
  const Json* map = index->find("weight_map");
  if (map == nullptr || !map->is_object()) return invalid_argument(index_path + ": has no weight_map");
  std::set<std::string> names;
  FileSet out;
  for (const Json::Member& m : map->members()) {
    if (!m.second.is_string() || m.second.as_string().empty() ||
        m.second.as_string().find('/') != std::string::npos) {
      return invalid_argument(index_path + ": weight_map of " + shown_name(m.first) + " names no file");
    }
    names.insert(m.second.as_string());
    out.tensors.push_back(m.first);
  }
  out.files.assign(names.begin(), names.end());
  return out;
}

Result<FileSet> files_of_directory(FileSystem& files, const std::string& path) {
  BORA_ASSIGN(const std::vector<std::string> names, files.list(path));
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  FileSet out;
  if (has("model.safetensors.index.json")) {
    BORA_ASSIGN(out, shards_of(files, path + "/model.safetensors.index.json"));
  } else if (has("model.safetensors")) {
    out.files.push_back("model.safetensors");
  } else {
    for (const std::string& name : names) {
      if (ends_with(name, ".safetensors")) out.files.push_back(name);
    }
    if (out.files.size() > 1)
      return invalid_argument(path + ": holds several .safetensors files and no index; name one");
  }
  if (out.files.empty()) return not_found(path + ": holds no .safetensors file");
  for (std::string& name : out.files) name = path + "/" + name;
  return out;
}

bool accepts(FileSystem& files, const std::string& path) {
  if (ends_with(path, ".safetensors")) return true;
  auto about = files.info(path);
  if (!about.ok() || !about->is_directory) return false;
  auto names = files.list(path);
  if (!names.ok()) return false;
  const auto any = [&](std::string_view end) {
    return std::any_of(names->begin(), names->end(), [end](const std::string& n) { return ends_with(n, end); });
  };
  // Beside a .gguf file a directory is of this format only if it has the configuration that goes with it.
  return any(".safetensors") && (!any(".gguf") || any("config.json"));
}

Result<std::unique_ptr<Checkpoint>> open(FileSystem& files, const std::string& path) {
  BORA_ASSIGN(const FileInfo about, files.info(path));
  FileSet set{{path}, {}};
  if (about.is_directory) {
    BORA_ASSIGN(set, files_of_directory(files, path));
  }
  auto out =
      std::make_unique<IndexedCheckpoint>(files, "safetensors", path, about.is_directory ? path : directory_of(path));
  for (const std::string& name : set.files) {
    BORA_ASSIGN(std::unique_ptr<MappedFile> map, files.map(name));
    const int32_t index = out->add_file(name, std::move(map));
    BORA_TRY_CONTEXT(read_file(out.get(), index), name);
  }
  for (const std::string& tensor : set.tensors) {
    if (out->find(tensor) == nullptr) {
      return data_loss(path + ": tensor " + shown_name(tensor) + " is promised by the index and in no file");
    }
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
