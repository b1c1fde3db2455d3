// A checkpoint: an index over the files of a model, whatever their format. It names tensors and says where their
// bytes lie; it loads nothing and knows no family.
//
// Formats are records in a list (formats.cc). Every count, offset and string of a file is bounded by the bytes that
// remain; errors are one line that names file, tensor and what was expected. Immutable after opening; any thread may
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/files.h"
#include "base/status.h"
#include "quant/scheme.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace bora::formats {

struct TensorEntry {
  std::string_view name;     // as in the file
  DType dtype = DType::kU8;  // element type; kU8 when `scheme` is a block type
  const quant::Scheme* scheme =
      nullptr;       // of this one tensor: f32, bf16, q4_0 …; null when no scheme is a single tensor of it
  Shape shape;       // outermost first ([out, in]); GGUF extents are reversed into this order
  int32_t file = 0;  // index into files()
  uint64_t offset = 0, size = 0;  // bytes in that file
};

// A metadata value of a file that carries any (GGUF). Views live as long as the checkpoint.
struct MetaValue {
  enum class Type : uint8_t { kBool, kInt, kUint, kFloat, kString, kArray };
  Type type = Type::kBool;
  bool boolean = false;
  int64_t integer = 0;  // kInt; kUint that fits is here too
  uint64_t unsigned_integer = 0;
  double number = 0;  // kFloat
  std::string_view string;
  Type element = Type::kBool;  // kArray: type of its elements; nested arrays are refused
  int32_t element_bytes = 0;   // kArray of numbers: width of one element in `raw`, little endian
  uint64_t count = 0;
  std::span<const std::byte> raw;         // kArray of numbers or bools
  std::vector<std::string_view> strings;  // kArray of strings

  // Typed reads; nullopt when the type does not fit.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_double() const;
  std::optional<std::string_view> as_string() const;
  std::optional<bool> as_bool() const;
  // Arrays of numbers, converted; nullopt for other types.
  std::optional<std::vector<int64_t>> as_ints() const;
  std::optional<std::vector<double>> as_doubles() const;
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  virtual std::string_view format() const = 0;               // name of its Format record
  virtual const std::string& path() const = 0;               // as opened
  virtual std::span<const std::string> files() const = 0;    // paths that hold tensors
  virtual std::span<const TensorEntry> tensors() const = 0;  // in file order
  virtual const TensorEntry* find(std::string_view name) const = 0;
  // Mapped bytes of a tensor of this checkpoint.
  virtual std::span<const std::byte> bytes(const TensorEntry& entry) const = 0;
  virtual void dont_need(const TensorEntry& entry) const = 0;

  // Keys in file order; empty for formats without metadata (safetensors: the __metadata__ strings).
  virtual std::span<const std::string_view> metadata_keys() const = 0;
  virtual const MetaValue* metadata(std::string_view key) const = 0;
  // A small file beside the weights ("config.json", "tokenizer.json"); kNotFound when there is none.
  virtual Result<std::string> side_file(std::string_view name) const = 0;
};

struct Format {
  std::string_view name;     // "gguf", "safetensors"
  std::string_view summary;  // one line for help texts
  // Looks at the name and the first bytes only.
  bool (*accepts)(FileSystem& files, const std::string& path);
  Result<std::unique_ptr<Checkpoint>> (*open)(FileSystem& files, const std::string& path);
};

std::span<const Format* const> formats();
// The first format that accepts. A path that none accepts: kInvalidArgument that lists what would be.
Result<std::unique_ptr<Checkpoint>> open_checkpoint(FileSystem& files, const std::string& path);

}  // namespace bora::formats
