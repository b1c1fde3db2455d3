#include "app/loader.h"

namespace bora::app {

Result<std::unique_ptr<Source>> open_source(const std::string& path) {
  auto out = std::make_unique<Source>();
  BORA_ASSIGN(out->checkpoint, formats::open_checkpoint(*out->files, path));
  return out;
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer_file(FileSystem& files, const std::string& tokenizer_json) {
  BORA_ASSIGN(const std::string json, files.read(tokenizer_json, 256u << 20));
  auto t = text::tokenizer_from_json(json, "");
  if (!t.ok()) return std::move(t).take_status().with_context(tokenizer_json);
  return t;
}

}  // namespace bora::app
