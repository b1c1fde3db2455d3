// What verbs need of a model: its checkpoint, tokenizer and chat template, found wherever its files keep them.
#pragma once

#include <memory>
#include <string>

#include "base/os/files.h"
#include "formats/checkpoint.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::app {

struct Source {
  std::unique_ptr<FileSystem> files = make_os_file_system();
  std::unique_ptr<formats::Checkpoint> checkpoint;
};

Result<std::unique_ptr<Source>> open_source(const std::string& path);
// From GGUF metadata or tokenizer.json beside the weights.
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const formats::Checkpoint& checkpoint);
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer_file(FileSystem& files, const std::string& tokenizer_json);
// The template's source; kNotFound when the model has none.
Result<std::string> load_template(const formats::Checkpoint& checkpoint);

}  // namespace bora::app
