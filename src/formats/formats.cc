// The list of formats.
#include "formats/checkpoint.h"

namespace bora::formats {

extern const Format kGguf;
extern const Format kSafetensors;

namespace {
const Format* const kFormats[] = {&kSafetensors, &kGguf};
}  // namespace

std::span<const Format* const> formats() { return kFormats; }

Result<std::unique_ptr<Checkpoint>> open_checkpoint(FileSystem& files, const std::string& path) {
  BORA_TRY(files.info(path).status());
  std::string known;
  for (const Format* f : kFormats) {
    if (f->accepts(files, path)) return f->open(files, path);
    known += (known.empty() ? "" : "; ") + std::string(f->summary);
  }
  return invalid_argument(path + ": is no model that this program reads; it reads " + known);
}

}  // namespace bora::formats
