// GGUF, versions 2 and 3: a header, metadata, tensor infos, then the data at an aligned offset.
//
// Every count is bounded by the bytes that remain (an entry takes at least a few), every length and offset by the
// file. Strings and arrays stay views into the mapping, so opening costs one pass over the header.
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "formats/index.h"

namespace bora::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little endian");

constexpr uint64_t kMostAlignment = 1 << 20;
constexpr int kMostDims = 4;
// Far above any model; a file of zeros must not pass for a huge one.
constexpr uint64_t kMostTensors = 1 << 20, kMostStrings = 1 << 22;

// A bounded reader over the mapped bytes. The first error sticks; reads after it give zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    T v{};
    if (!need(sizeof(T))) return v;
    std::memcpy(&v, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return v;
  }
  std::string_view string() {
    const uint64_t length = number<uint64_t>();
    if (!need(length)) return {};
    std::string_view s(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return s;
  }
  std::span<const std::byte> raw(uint64_t size) {
    if (!need(size)) return {};
    auto s = bytes_.subspan(at_, size);
    at_ += size;
    return s;
  }
  bool ok() const { return ok_; }
  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

 private:
  bool need(uint64_t n) {
    if (n > left()) ok_ = false;
    return ok_;
  }
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  bool ok_ = true;
};

// The value types of the format, by id 0 to 12; 8 is a string, 9 an array.
struct ValueType {
  MetaValue::Type type;
  int32_t bytes;
};
constexpr ValueType kTypes[] = {
    {MetaValue::Type::kUint, 1},  {MetaValue::Type::kInt, 1},  {MetaValue::Type::kUint, 2},
    {MetaValue::Type::kInt, 2},   {MetaValue::Type::kUint, 4}, {MetaValue::Type::kInt, 4},
    {MetaValue::Type::kFloat, 4}, {MetaValue::Type::kBool, 1}, {MetaValue::Type::kString, 8},
    {MetaValue::Type::kArray, 0}, {MetaValue::Type::kUint, 8}, {MetaValue::Type::kInt, 8},
    {MetaValue::Type::kFloat, 8}};
constexpr uint32_t kTypeCount = sizeof kTypes / sizeof kTypes[0];

template <typename S, typename U>
int64_t integer_of(Reader& r, bool is_signed, uint64_t* u) {
  if (is_signed) return static_cast<int64_t>(r.number<S>());
  *u = r.number<U>();
  return static_cast<int64_t>(*u);
}

void read_scalar(Reader& r, ValueType t, MetaValue* v) {
  v->type = t.type;
  if (t.type == MetaValue::Type::kString) {
    v->string = r.string();
  } else if (t.type == MetaValue::Type::kBool) {
    v->boolean = r.number<uint8_t>() != 0;
  } else if (t.type == MetaValue::Type::kFloat) {
    v->number = t.bytes == 4 ? static_cast<double>(r.number<float>()) : r.number<double>();
  } else {
    const bool is_signed = t.type == MetaValue::Type::kInt;
    switch (t.bytes) {
      case 1:
        v->integer = integer_of<int8_t, uint8_t>(r, is_signed, &v->unsigned_integer);
        break;
      case 2:
        v->integer = integer_of<int16_t, uint16_t>(r, is_signed, &v->unsigned_integer);
        break;
      case 4:
        v->integer = integer_of<int32_t, uint32_t>(r, is_signed, &v->unsigned_integer);
        break;
      default:
        v->integer = integer_of<int64_t, uint64_t>(r, is_signed, &v->unsigned_integer);
        break;
    }
  }
}

Status read_array(Reader& r, MetaValue* v) {
  const uint32_t id = r.number<uint32_t>();
  const uint64_t count = r.number<uint64_t>();
  if (!r.ok()) return data_loss("the file ends inside an array");
  if (id >= kTypeCount) return invalid_argument("an array of unknown type " + std::to_string(id));
  const ValueType t = kTypes[id];
  if (t.type == MetaValue::Type::kArray) return invalid_argument("arrays of arrays are not supported");
  if (count > r.left() / static_cast<uint64_t>(t.bytes)) {
    return data_loss("an array of " + std::to_string(count) + " elements is longer than the file");
  }
  v->type = MetaValue::Type::kArray;
  v->element = t.type;
  v->count = count;
  if (t.type == MetaValue::Type::kString) {
    if (count > kMostStrings)
      return invalid_argument("an array of " + std::to_string(count) + " strings, at most " +
                              std::to_string(kMostStrings));
    // Grows with what is read: the count alone must not cost memory.
    for (uint64_t i = 0; i < count && r.ok(); ++i) v->strings.push_back(r.string());
    return r.ok() ? ok_status() : data_loss("the file ends inside a string of an array");
  }
  v->element_bytes = t.bytes;
  v->raw = r.raw(count * static_cast<uint64_t>(t.bytes));
  return {};
}

Status read_metadata(Reader& r, uint64_t count, IndexedCheckpoint* out) {
  // A key, a type and the shortest value take 13 bytes.
  if (count > r.left() / 13) return data_loss(std::to_string(count) + " metadata entries do not fit into the file");
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view key = r.string();
    const uint32_t id = r.number<uint32_t>();
    if (!r.ok()) return data_loss("the file ends inside metadata entry " + std::to_string(i));
    const std::string where = "metadata " + shown_name(key);
    if (id >= kTypeCount) return invalid_argument(where + " has unknown type " + std::to_string(id));
    MetaValue v;
    if (kTypes[id].type == MetaValue::Type::kArray) {
      BORA_TRY_CONTEXT(read_array(r, &v), where);
    } else {
      read_scalar(r, kTypes[id], &v);
    }
    if (!r.ok()) return data_loss(where + ": the file ends inside its value");
    BORA_TRY(out->add_metadata(key, std::move(v)));
  }
  return {};
}

Status read_tensor_info(Reader& r, TensorEntry* entry) {
  entry->name = r.string();
  const uint32_t rank = r.number<uint32_t>();
  if (!r.ok()) return data_loss("the file ends inside a tensor's info");
  const std::string where = "tensor " + shown_name(entry->name);
  if (rank > kMostDims) return invalid_argument(where + " has " + std::to_string(rank) + " dimensions, at most 4");
  int64_t dims[kMostDims];
  int64_t elements = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    const uint64_t n = r.number<uint64_t>();
    if (n == 0 || n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        static_cast<int64_t>(n) > std::numeric_limits<int64_t>::max() / elements) {
      if (!r.ok()) break;
      return invalid_argument(where + " has an extent of " + std::to_string(n));
    }
    elements *= static_cast<int64_t>(n);
    dims[rank - 1 - d] = static_cast<int64_t>(n);  // innermost first in the file
  }
  const uint32_t type = r.number<uint32_t>();
  entry->offset = r.number<uint64_t>();
  if (!r.ok()) return data_loss(where + ": the file ends inside its info");
  entry->shape = Shape(std::span<const int64_t>(dims, rank));
  entry->scheme = quant::scheme_of_gguf(type);
  if (entry->scheme == nullptr) {
    return unimplemented(where + " has type " + std::to_string(type) + ", which is not supported");
  }
  const int64_t cols = rank == 0 ? 1 : entry->shape.dim(-1);
  auto size = quant::coded_bytes(*entry->scheme, elements / cols, cols);
  if (!size.ok()) return std::move(size).take_status().with_context(where);
  entry->size = static_cast<uint64_t>(*size);
  entry->dtype = entry->scheme->block > 1                         ? DType::kU8
                 : entry->scheme->name == std::string_view("f32") ? DType::kF32
                 : entry->scheme->name == std::string_view("f16") ? DType::kF16
                                                                  : DType::kBF16;
  return {};
}

Result<uint64_t> alignment_of(const IndexedCheckpoint& index) {
  const MetaValue* v = index.metadata("general.alignment");
  if (v == nullptr) return uint64_t{32};
  const auto n = v->as_int();
  if (!n || *n < 1 || static_cast<uint64_t>(*n) > kMostAlignment || !std::has_single_bit(static_cast<uint64_t>(*n))) {
    return invalid_argument("general.alignment must be a power of two up to " + std::to_string(kMostAlignment));
  }
  return static_cast<uint64_t>(*n);
}

Status read_file(IndexedCheckpoint* out, int32_t file) {
  const std::span<const std::byte> bytes = out->mapping(file).bytes();
  Reader r(bytes);
  if (r.number<uint32_t>() != 0x46554747u) return invalid_argument("is no GGUF file (wrong first bytes)");
  const uint32_t version = r.number<uint32_t>();
  if (version != 2 && version != 3) {
    return unimplemented("has GGUF version " + std::to_string(version) + "; 2 and 3 are supported");
  }
  const uint64_t tensors = r.number<uint64_t>();
  const uint64_t entries = r.number<uint64_t>();
  if (!r.ok()) return data_loss("the file ends inside its header");
  BORA_TRY(read_metadata(r, entries, out));
  const MetaValue* parts = out->metadata("split.count");
  if (parts != nullptr && parts->as_int().value_or(2) > 1) {
    return unimplemented("is one part of a model in " + std::to_string(parts->as_int().value_or(2)) +
                         " files; join them into one file first");
  }
  BORA_ASSIGN(const uint64_t alignment, alignment_of(*out));
  // An info takes at least 24 bytes.
  if (tensors > r.left() / 24) return data_loss(std::to_string(tensors) + " tensors do not fit into the file");
  if (tensors > kMostTensors) {
    return invalid_argument("has " + std::to_string(tensors) + " tensors, at most " + std::to_string(kMostTensors));
  }
  std::vector<TensorEntry> infos;  // grows with what is read: the count alone must not cost memory
  for (uint64_t i = 0; i < tensors; ++i) BORA_TRY(read_tensor_info(r, &infos.emplace_back()));
  const uint64_t data = (r.at() + alignment - 1) / alignment * alignment;
  out->reserve(tensors);
  for (TensorEntry& e : infos) {
    const std::string where = "tensor " + shown_name(e.name);
    if (e.offset % alignment != 0) {
      return invalid_argument(where + " starts at " + std::to_string(e.offset) + ", not at a multiple of " +
                              std::to_string(alignment));
    }
    if (data > bytes.size() || e.offset > bytes.size() - data || e.size > bytes.size() - data - e.offset) {
      return data_loss(where + " needs " + std::to_string(e.size) + " bytes at " + std::to_string(e.offset) +
                       ", beyond the end of the file: it is cut short");
    }
    e.offset += data;
    e.file = file;
    BORA_TRY(out->add_tensor(e));
  }
  return check_overlap(std::move(infos));
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// A file by its name, or a directory that holds exactly one such file and no Hugging Face configuration.
Result<std::string> gguf_path(FileSystem& files, const std::string& path) {
  BORA_ASSIGN(const FileInfo about, files.info(path));
  if (!about.is_directory) return path;
  BORA_ASSIGN(const std::vector<std::string> names, files.list(path));
  std::string found;
  for (const std::string& name : names) {
    if (!ends_with(name, ".gguf")) continue;
    if (!found.empty()) return invalid_argument(path + ": holds several .gguf files; name one");
    found = path + "/" + name;
  }
  if (found.empty()) return not_found(path + ": holds no .gguf file");
  return found;
}

bool accepts(FileSystem& files, const std::string& path) {
  if (ends_with(path, ".gguf")) return true;
  auto about = files.info(path);
  if (!about.ok()) return false;
  // Several such files are this format's affair too: opening says to name one.
  if (about->is_directory) return gguf_path(files, path).status().code() != Code::kNotFound;
  auto map = files.map(path);
  return map.ok() && (*map)->bytes().size() >= 4 && std::memcmp((*map)->bytes().data(), "GGUF", 4) == 0;
}

Result<std::unique_ptr<Checkpoint>> open(FileSystem& files, const std::string& path) {
  BORA_ASSIGN(const std::string file, gguf_path(files, path));
  BORA_ASSIGN(std::unique_ptr<MappedFile> map, files.map(file));
  auto out = std::make_unique<IndexedCheckpoint>(files, "gguf", path, directory_of(file));
  const int32_t index = out->add_file(file, std::move(map));
  BORA_TRY_CONTEXT(read_file(out.get(), index), file);
  return std::unique_ptr<Checkpoint>(std::move(out));
}

}  // namespace

extern const Format kGguf;
const Format kGguf{.name = "gguf", .summary = "GGUF version 2 or 3: a .gguf file", .accepts = accepts, .open = open};

}  // namespace bora::formats
