// What verbs need of a model: its checkpoint, or a tokenizer alone.
#pragma once

#include <memory>
#include <string>

#include "base/os/files.h"
#include "formats/checkpoint.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::app {

struct Source {
  std::unique_ptr<FileSystem> files = make_os_file_system();
  std::unique_ptr<formats::Checkpoint> checkpoint;
};

Result<std::unique_ptr<Source>> open_source(const std::string& path);
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer_file(FileSystem& files, const std::string& tokenizer_json);

}  // namespace bora::app
