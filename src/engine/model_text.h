// The text side of a model: what turns messages into ids and ids into answers, found wherever its files keep it;
// loads no weights. Immutable once loaded; shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/chat/chat.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

namespace bora::formats {
class Checkpoint;
}

namespace bora::engine {

struct ModelText {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string template_source;                          // empty: the model has no chat template
  std::shared_ptr<const text::Template> chat_template;  // null then
  const text::AnswerFormat* answers = nullptr;          // never null once loaded
  std::string bos_token, eos_token;                     // texts, empty when the vocabulary has none
};

struct ModelTextOptions {
  std::string template_file;  // replaces the model's own; empty = none
  std::string parser;         // name of an answer format; empty = chosen by the template
};

// From GGUF metadata or tokenizer.json beside the weights.
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const formats::Checkpoint& checkpoint);
// The template's source; kNotFound when the model has none.
Result<std::string> load_template(const formats::Checkpoint& checkpoint);

// Errors name the file. A model without a chat template is no error.
Result<std::unique_ptr<ModelText>> load_model_text(const formats::Checkpoint& checkpoint,
                                                   const ModelTextOptions& options);

// Ids that end an answer: `configured` (of config and generation settings) and what the vocabulary says besides
// (end of sequence, of turn, of message). Ascending, each once.
std::vector<int32_t> end_tokens(const formats::Checkpoint& checkpoint, const text::Tokenizer& tokenizer,
                                std::span<const int32_t> configured);

}  // namespace bora::engine
