// The text side of a model: what turns messages into ids and ids into answers, found wherever its files keep it;
// loads no weights. Immutable once loaded; shared by threads.
#pragma once

#include <memory>
#include <string>

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

// Errors name the file. A model without a chat template is no error.
Result<std::unique_ptr<ModelText>> load_model_text(const formats::Checkpoint& checkpoint,
                                                   const ModelTextOptions& options);

}  // namespace bora::engine
